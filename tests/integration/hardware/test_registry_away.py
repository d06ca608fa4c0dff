"""Jobs whose registry does not give their image now: they wait, say so, and are tried again for a while."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models import F
from django.utils import timezone
from django.utils.translation import override
from pytest_django.fixtures import Settings

from nodes.protocol.messages import Exit
from nodes.protocol.states import Cause, Phase
from portal.common.sentences import worded
from portal.jobs.models import Job, Task, TaskAttempt
from portal.jobs.services.retry_counting import registry_until, tried_again
from portal.jobs.states import JobState
from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db

ANSWER = "the registry of image answers 503: received unexpected HTTP status: 503 Service Unavailable"
GANGS = pytest.mark.parametrize("gang", [True, False], ids=["gang", "no gang"])


def refused(world: World, job: Job, *, minutes_ago: float = 0) -> str:
    """Its registry answers 503 to the next try; those before were so long ago. What the job is then."""
    TaskAttempt.objects.update(ended_at=F("ended_at") - timedelta(minutes=minutes_ago))
    Job.objects.update(not_before=None)
    Task.objects.update(not_before=None)
    world.cycle()
    node = world.nodes["gpu01"]
    (order,) = [one for one in node.desired().orders if one.phase in {Phase.PREPARE, Phase.RUN}]
    node.end(order, Exit(cause=Cause.IMAGE_AWAY, message=ANSWER))
    node.report()
    world.settle()
    job.refresh_from_db()
    return job.state


@GANGS
def test_a_job_waits_for_its_registry_and_says_until_when_and_why(world: World, gang: bool) -> None:
    world.node("gpu01", gpus=1)
    job = world.submit(gang=gang)
    assert refused(world, job) != JobState.FAILED
    until = TaskAttempt.objects.get().ended_at + timedelta(minutes=30)  # type: ignore[operator]
    told = job.events.filter(code__in=["requeued", "task_retried"]).latest("id")
    assert (
        f"the registry does not give its image now ({ANSWER}). It is tried until {until:%H:%M:%S} UTC." in told.message
    )
    if gang:
        assert job.waiting_message.startswith("it is tried again at ")
        assert ANSWER in job.waiting_message
    with override("zh-hans"):
        assert "tried" not in worded(told.message)
    assert job.retries_counted == 0
    assert set(job.avoid_nodes) == {"gpu01"}, "another node may reach it"


@GANGS
def test_after_half_an_hour_it_has_failed_and_the_last_try_is_not_later(world: World, gang: bool) -> None:
    world.node("gpu01", gpus=1)
    job = world.submit(gang=gang, role=None if gang else {"completion": {"minFailedInstances": 1}})
    refused(world, job)
    assert refused(world, job, minutes_ago=20) != JobState.FAILED
    first, last = TaskAttempt.objects.order_by("number")
    assert first.ended_at is not None
    again = tried_again(row=last, pause=timedelta(minutes=15), now=timezone.now())
    assert again == first.ended_at + timedelta(minutes=30)
    assert refused(world, job, minutes_ago=10) == JobState.FAILED
    assert job.end_message.endswith("It was tried for 30 minutes.")


def test_a_run_in_between_begins_the_time_anew(world: World) -> None:
    node = world.node("gpu01", gpus=1)
    job = world.submit(jobRetryCount=1)
    refused(world, job)
    Job.objects.update(not_before=None)
    world.settle()
    node.finish(code=1)
    assert refused(world, job, minutes_ago=40) == JobState.WAITING


def test_another_fault_of_its_start_before_is_no_part_of_the_time(world: World) -> None:
    node = world.node("gpu01", gpus=1)
    job = world.submit()
    world.cycle()
    (order,) = node.desired().orders
    node.end(order, Exit(cause=Cause.PORT_TAKEN, message="port 20001 is in use"))
    node.report()
    assert refused(world, job, minutes_ago=40) != JobState.FAILED


def test_beyond_the_time_its_own_retries_are_used_each_after_a_pause(world: World) -> None:
    world.node("gpu01", gpus=1)
    job = world.submit(jobRetryCount=1)
    refused(world, job)
    assert refused(world, job, minutes_ago=40) != JobState.FAILED
    assert job.retries_counted == 1
    last, now, pause = TaskAttempt.objects.latest("number"), timezone.now(), timedelta(seconds=5)
    assert tried_again(row=last, pause=pause, now=now) == now + pause
    assert refused(world, job) == JobState.FAILED


def test_each_task_of_a_job_that_is_no_gang_has_a_time_of_its_own(world: World) -> None:
    node = world.node("gpu01", gpus=2)
    job = world.submit(gang=False, instances=2, role={"completion": {"minFailedInstances": 1}})
    world.cycle()
    first, second = node.desired().orders
    for order, ago in ((first, 40), (second, 0)):
        node.end(order, Exit(cause=Cause.IMAGE_AWAY, message=ANSWER))
        node.report()
        TaskAttempt.objects.filter(pk=order.attempt).update(ended_at=F("ended_at") - timedelta(minutes=ago))
    late = TaskAttempt.objects.get(pk=second.attempt)
    until = registry_until(late)
    assert until is not None
    assert until > timezone.now() + timedelta(minutes=29)
    job.refresh_from_db()
    assert job.state != JobState.FAILED


def test_how_long_it_is_tried_can_be_set(world: World, settings: Settings) -> None:
    settings.REGISTRY_RETRY_S = 0
    world.node("gpu01", gpus=1)
    job = world.submit()
    assert refused(world, job) == JobState.FAILED
