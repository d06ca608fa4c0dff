"""A job gets another priority class: who may, which, what the scheduler makes of it."""

from __future__ import annotations

import pytest

from portal.job_file.validate import parse
from portal.jobs.models import Job
from portal.jobs.services.pause import job_pause
from portal.teams.models import VirtualCluster
from tests.support.cluster.world import World
from tests.support.people.cast import Api, cast_of

pytestmark = pytest.mark.django_db


def change(api: Api, job: Job, to: str) -> tuple[int, str]:
    answer = api.call("POST", f"jobs/{job.pk}/priority", {"priority_class": to})
    return answer.status_code, answer.json().get("detail", "")


@pytest.fixture
def full() -> World:
    """One GPU, which a job holds; members may use every class but the highest."""
    world = World()
    VirtualCluster.objects.update(member_class="prod")
    world.node("gpu01", gpus=1)
    world.submit(name="holder")
    world.settle()
    return world


def test_a_raised_job_starts_first_and_its_file_says_its_class(full: World) -> None:
    first, second = full.submit(name="first"), full.submit(name="second")
    full.cycle()
    assert change(Api(full.user), second, "prod") == (200, "")
    full.nodes["gpu01"].finish()
    full.settle()
    states = dict(Job.objects.values_list("name", "state"))
    assert (states["first"], states["second"]) == ("waiting", "running")
    second.refresh_from_db()
    assert parse(second.config).priority == second.priority == second.spec["priority"] == 100
    assert [one.message for one in second.events.filter(code="priority")] == [
        "Its priority was changed from Test to Production by alice."
    ]
    assert first.priority == 10


def test_a_running_job_that_is_raised_is_no_more_preempted_by_its_team(full: World) -> None:
    holder, api = Job.objects.get(name="holder"), Api(full.user)
    assert change(api, holder, "prod") == (200, "")
    urgent = full.submit(name="urgent", extras={"hivedScheduler": {"jobPriorityClass": "prod"}})
    full.settle()
    assert Job.objects.get(pk=urgent.pk).state == "waiting"
    assert change(api, holder, "test") == (200, "")
    full.settle()
    assert Job.objects.get(pk=urgent.pk).state in {"starting", "running"}


def test_a_class_above_the_highest_that_one_may_use_is_refused(full: World) -> None:
    job = full.submit(name="second")
    people = cast_of(full.vc, full.user)
    VirtualCluster.objects.update(member_class="test", lead_class="crit")
    status, told = change(Api(full.user), job, "prod")
    assert (status, "Production (prod) is above Test (test)" in told) == (400, True)
    assert change(Api(people["lead"]), job, "crit") == (200, "")
    assert change(Api(people["member"]), job, "oppo")[0] == 403


def test_only_while_it_waits_does_a_job_become_opportunistic_or_cease_to_be(full: World) -> None:
    holder, api = Job.objects.get(name="holder"), Api(full.user)
    status, told = change(api, holder, "oppo")
    assert (status, "only while it waits" in told) == (409, True)
    waiting = full.submit(name="second")
    assert [change(api, waiting, to)[0] for to in ("oppo", "test")] == [200, 200]
    full.nodes["gpu01"].finish()
    full.settle()
    full.nodes["gpu01"].finish()
    full.settle()
    assert change(api, waiting, "prod") == (
        409, "alice/second#1 succeeded already; its priority does not matter any more.",
    )  # fmt: skip


def test_the_same_class_again_is_no_change(full: World) -> None:
    job = full.submit(name="second")
    assert change(Api(full.user), job, "test") == (200, "")
    assert not job.events.filter(code="priority").exists()


def test_a_paused_job_keeps_its_pause(full: World) -> None:
    job = full.submit(name="second")
    job_pause(job=job, actor="alice", now=full.now)
    assert change(Api(full.user), job, "prod") == (200, "")
    assert Job.objects.get(pk=job.pk).paused
