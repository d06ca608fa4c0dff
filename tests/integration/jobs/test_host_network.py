"""The right to the host network, taken away from jobs that wait."""

from __future__ import annotations

import pytest

from portal.jobs.models import Job
from portal.teams.models import VirtualCluster
from tests.support.cluster.world import World
from tests.support.people.cast import Api

pytestmark = pytest.mark.django_db


def allow(world: World, allowed: bool) -> None:
    VirtualCluster.objects.filter(pk=world.vc.pk).update(host_network=allowed)


def test_a_job_of_several_tasks_that_waited_is_paused_when_it_would_start_without_the_right(world: World) -> None:
    world.node("gpu01", gpus=2)
    world.submit(name="runs", instances=2)
    world.settle()
    job, api = world.submit(name="waits", instances=2), Api(world.user)
    world.submit(name="alone", gpu=2)
    allow(world, False)
    world.settle()
    assert Job.objects.get(name="runs").state == "running", "what has begun keeps it"
    world.nodes["gpu01"].finish()
    world.settle()
    assert dict(Job.objects.values_list("name", "state")) == {
        "runs": "succeeded", "waits": "waiting", "alone": "running",
    }  # fmt: skip
    told = api.get(f"jobs/{job.pk}/events")["results"][-1]
    assert (told["code"], Job.objects.get(pk=job.pk).paused) == ("paused", True)
    assert "2 tasks need the host network, which vision may not use any more" in told["message"]
    allow(world, True)
    world.nodes["gpu01"].finish()
    api.call("POST", f"jobs/{job.pk}/resume")
    world.settle()
    assert Job.objects.get(pk=job.pk).state == "running"
