"""Decisions about a parked job that it, or somebody, overtakes before they are carried out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.utils import timezone

from nodes.protocol.parking import SUSPEND
from portal.jobs.models import Claim, Job, TaskAttempt
from portal.jobs.services.stop import job_stop
from portal.parking.services.park import job_park, job_unpark
from portal.teams.models import VirtualCluster
from tests.integration.scheduler.plans import carry_out, preempt, read, start
from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def jobs(world: World) -> tuple[Job, Job]:
    """A parked job that wants its GPU back, and the one that has it on loan."""
    node = world.node("gpu01", gpus=1)
    node.inventory = replace(node.inventory, capabilities=(SUSPEND,))
    node.report()
    VirtualCluster.objects.update(parking=True)
    parked = world.submit(name="notebook")
    world.settle()
    job_park(job=parked, actor="alice", now=timezone.now())
    world.settle()
    cheap = world.submit(name="cheap", extras={"hivedScheduler": {"jobPriorityClass": "oppo"}})
    world.settle()
    job_unpark(job=parked, actor="alice", now=timezone.now())
    return Job.objects.get(pk=parked.pk), Job.objects.get(pk=cheap.pk)


@pytest.mark.parametrize("what", ["parked anew", "stopped"])
def test_nobody_ends_for_a_job_that_does_not_want_its_gpu_any_more(
    world: World, jobs: tuple[Job, Job], what: str
) -> None:
    parked, cheap = jobs
    loaded = read()
    if what == "stopped":
        job_stop(job=parked, actor=parked.user, now=timezone.now())
    else:
        job_park(job=parked, actor="bob", now=timezone.now())
    done = carry_out(loaded, preemptions=[preempt(loaded, parked, {0: "gpu01/0"}, {cheap: (0,)})])
    assert (done.preempted, done.skipped) == (0, 1)
    assert not TaskAttempt.objects.filter(job_attempt__job=cheap).exclude(stop_reason="").exists()


def test_a_job_that_is_parked_anew_is_not_put_back(world: World, jobs: tuple[Job, Job]) -> None:
    parked, cheap = jobs
    job_stop(job=cheap, actor=cheap.user, now=timezone.now())
    assert world.obeyed()
    loaded = read()
    job_park(job=parked, actor="bob", now=timezone.now())
    done = carry_out(loaded, starts=[start(loaded, parked, {0: "gpu01/0"})])
    assert done.skipped == 1
    assert Claim.objects.get().claimant == parked
