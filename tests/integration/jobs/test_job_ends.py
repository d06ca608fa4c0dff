"""How a job ends: by itself, by its tasks, by a person, by its time limit, and when it is tried again."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import DataError, connection
from django.test import Client as DjangoClient
from django.utils import timezone
from django.utils.translation import override
from pytest_django.fixtures import Settings

from nodes.protocol.messages import Exit
from nodes.protocol.states import Cause, Phase, StopReason
from portal.common.errors import Conflict
from portal.common.sentences import worded
from portal.jobs import wordings
from portal.jobs.models import Allocation, Job, JobAttempt, JobEvent, Task, TaskAttempt
from portal.jobs.services.attempts import attempt_end
from portal.jobs.services.stop import job_stop
from portal.jobs.states import EndReason, JobState
from portal.queue.wait_translations import why_waits
from portal.scheduler.reports import text_storable
from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db


def test_a_failing_task_fails_the_job_and_stops_its_siblings(world: World) -> None:
    one, two = world.node("gpu01", gpus=1), world.node("gpu02", gpus=1)
    job = world.submit(instances=2)
    world.settle()
    one.finish(code=3)
    (order,) = two.desired().orders
    assert order.phase is Phase.STOP
    assert order.stop is not None
    assert order.stop.reason is StopReason.SIBLING
    job.refresh_from_db()
    assert job.state == JobState.RUNNING, "the other container still ends"
    two.obey()
    job.refresh_from_db()
    assert job.state == JobState.FAILED
    assert "worker/0 failed on gpu01: exit status 3" in job.end_message
    assert job.exit_code == 3
    ended = JobEvent.objects.get(code="attempt_ended")
    assert ended.message == f"Attempt 1 ended: {job.end_message}"


CHILD_KILLED = "The kernel had killed one of its processes for memory: it may need more memoryMB."


@pytest.mark.parametrize("gang", [True, False], ids=["gang", "no gang"])
def test_a_process_killed_for_memory_is_told_beside_the_true_end_and_stops_no_retry(world: World, gang: bool) -> None:
    node = world.node("gpu01", gpus=1)
    job = world.submit(gang=gang, jobRetryCount=int(gang), role={"taskRetryCount": int(not gang)})
    world.settle()
    node.end(node.desired().orders[0], Exit(cause=Cause.EXITED, code=1, oom_seen=True))
    node.report()
    (again,) = JobEvent.objects.filter(code__in=["requeued", "task_retried"])
    assert f"exit status 1 (an error): see the end of its log. {CHILD_KILLED} " in again.message
    with override("zh-hans"):
        assert "killed" not in worded(again.message)
    job.refresh_from_db()
    assert job.state != JobState.FAILED


def test_a_process_killed_for_memory_is_told_of_a_job_that_succeeded(world: World) -> None:
    node = world.node("gpu01", gpus=1)
    job = world.submit()
    world.settle()
    node.end(node.desired().orders[0], Exit(cause=Cause.EXITED, code=0, oom_seen=True))
    node.report()
    job.refresh_from_db()
    assert job.state == JobState.SUCCEEDED
    assert [one.message for one in job.events.filter(code="hint")].count(f"Task worker/0: {CHILD_KILLED}") == 1


def ends(world: World, job: Job, codes: list[int]) -> str:
    """Its program runs once for each of these codes, and ends so; what the job is then."""
    for code in codes:
        Job.objects.update(not_before=None)
        Task.objects.update(not_before=None)
        world.settle()
        world.nodes["gpu01"].finish(code=code)
    job.refresh_from_db()
    return job.state


OFTEN = "Its program has ended so 3 times: from now on that counts as a failure of its own."


@pytest.mark.parametrize("gang", [True, False], ids=["gang", "no gang"])
@pytest.mark.parametrize("code", [130, 137, 143])
def test_ends_that_seem_to_be_others_doing_cost_retries_once_they_are_too_many(
    world: World, settings: Settings, gang: bool, code: int
) -> None:
    settings.FAULT_RETRIES = 2
    world.node("gpu01", gpus=1)
    job = world.submit(gang=gang, role=None if gang else {"completion": {"minFailedInstances": 1}})
    assert ends(world, job, [code, code]) != JobState.FAILED
    assert not job.events.filter(code="faults_counted").exists()
    assert ends(world, job, [code]) == JobState.FAILED
    assert job.end_message.endswith(OFTEN)
    warned = job.events.get(code="faults_counted")
    assert warned.message.endswith(OFTEN)
    with override("zh-hans"):
        assert "ended" not in worded(job.end_message)


@pytest.mark.parametrize("gang", [True, False], ids=["gang", "no gang"])
def test_beyond_them_its_own_retries_are_used_and_its_owner_was_warned_once(
    world: World, settings: Settings, gang: bool
) -> None:
    settings.FAULT_RETRIES = 2
    world.node("gpu01", gpus=1)
    role = None if gang else {"taskRetryCount": 2, "completion": {"minFailedInstances": 1}}
    job = world.submit(gang=gang, role=role, jobRetryCount=2 if gang else 0)
    assert ends(world, job, [137, 1, 143]) != JobState.FAILED
    assert not job.events.filter(code="faults_counted").exists()
    assert ends(world, job, [137]) != JobState.FAILED
    assert ends(world, job, [130]) == JobState.FAILED
    assert (job.retries_counted if gang else Task.objects.get().retries_counted) == 2
    assert job.events.get(code="faults_counted").message.endswith(OFTEN)
    assert "has ended so 4 times" in job.end_message


def faulty(world: World, job: Job, exit_: Exit, *, runs: bool) -> str:
    """The node ends its next run so, before or after its program begins; what the job is then."""
    Job.objects.update(not_before=None)
    world.cycle()
    node = world.nodes["gpu01"]
    if runs:
        world.settle()
    (order,) = [one for one in node.desired().orders if one.phase in {Phase.PREPARE, Phase.RUN}]
    node.end(order, exit_)
    node.report()
    job.refresh_from_db()
    return job.state


def test_what_servers_did_at_its_start_does_not_count_among_such_ends(world: World, settings: Settings) -> None:
    settings.FAULT_RETRIES = 2
    world.node("gpu01", gpus=1)
    job = world.submit()
    for cause, runs in ((Cause.IMAGE_MISMATCH, False), (Cause.PORT_TAKEN, False), (Cause.DEVICE_FAULT, True)):
        assert faulty(world, job, Exit(cause=cause, message="it did"), runs=runs) != JobState.FAILED
    assert ends(world, job, [137, 137]) != JobState.FAILED
    assert faulty(world, job, Exit(cause=Cause.IMAGE_MISMATCH, message="it did"), runs=False) != JobState.FAILED
    assert faulty(world, job, Exit(cause=Cause.DEVICE_FAULT, message="it did"), runs=True) != JobState.FAILED
    assert not any("has ended so" in one.message for one in job.events.all())
    assert ends(world, job, [137]) == JobState.FAILED


def test_a_run_that_was_lost_with_its_server_does_not_count_among_such_ends(world: World, settings: Settings) -> None:
    settings.FAULT_RETRIES = 1
    world.node("gpu01", gpus=1)
    job = world.submit(gang=False, role={"completion": {"minFailedInstances": 1}})
    ends(world, job, [137])
    TaskAttempt.objects.update(lost_at=timezone.now())
    assert ends(world, job, [137]) != JobState.FAILED
    assert ends(world, job, [137]) == JobState.FAILED


def test_the_page_of_a_job_says_while_it_is_tried_again_that_such_ends_count_now(
    world: World, settings: Settings, client: DjangoClient
) -> None:
    settings.FAULT_RETRIES = 2
    world.node("gpu01", gpus=1)
    job = world.submit(jobRetryCount=5)
    assert ends(world, job, [137, 137, 137]) == JobState.WAITING
    client.force_login(world.user)
    page = client.get(f"/jobs/{job.pk}").content.decode()
    assert OFTEN in html.unescape(page).split('id="log')[0]


def test_a_run_of_a_day_begins_the_count_of_such_ends_anew(world: World, settings: Settings) -> None:
    settings.FAULT_RETRIES = 2
    world.node("gpu01", gpus=1)
    job = world.submit()
    ends(world, job, [137, 137])
    JobAttempt.objects.filter(number=2).update(started_at=timezone.now() - timedelta(days=1, minutes=1))
    assert ends(world, job, [137, 137]) == JobState.WAITING
    assert ends(world, job, [137]) == JobState.FAILED


@pytest.mark.parametrize("never_ms", [-62_135_596_800_000, 1, 253_402_300_799_000, 1 << 60])
def test_a_time_that_cannot_be_is_taken_for_now(world: World, never_ms: int) -> None:
    """A node says what it likes; pages must be able to show it."""
    node = world.node("gpu01", gpus=1)
    job = world.submit()
    world.settle()
    (order,) = node.desired().orders
    node.end(order, Exit(cause=Cause.EXITED, code=0))
    node.containers[order.attempt] = replace(node.containers[order.attempt], ended_ms=never_ms)
    assert node.report()
    row = TaskAttempt.objects.get(task__job=job)
    assert row.ended_at is not None
    assert abs(row.ended_at - timezone.now()) < timedelta(minutes=1)
    job.refresh_from_db()
    assert job.state == JobState.SUCCEEDED


def test_what_a_program_prints_last_is_kept_whatever_it_is(world: World) -> None:
    """A NUL is text to a terminal and none to PostgreSQL."""
    node = world.node("gpu01", gpus=1)
    job = world.submit()
    world.settle()
    (order,) = node.desired().orders
    node.end(order, Exit(cause=Cause.EXITED, code=0, log_tail="a\0\0b", message="\0"))
    assert node.report()
    row = TaskAttempt.objects.get(task__job=job)
    assert (row.log_tail, row.exit_message) == ("a\ufffd\ufffdb", "\ufffd")
    job.refresh_from_db()
    assert job.state == JobState.SUCCEEDED


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        (rb"\u0000", "\ufffd"),
        (rb"\\u0000 \\\u0000", "\\u0000 \\\ufffd"),
        (rb"\ud800", "\ufffd"),
        (rb"\ud800\uD800\udc00\uDFFFx", "\ufffd\U00010000\ufffdx"),
        (rb"\ud83d\n\"\u00e9", '\ufffd\n"\u00e9'),
        (rb"\\ud800 \u0001", "\\ud800 \x01"),
    ],
)
def test_what_no_text_may_hold_is_replaced_and_nothing_else(written: bytes, kept: str) -> None:
    assert json.loads(text_storable(b'["' + written + b'"]')) == [kept]


def test_a_container_that_cannot_be_taken_in_keeps_no_other_back(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    node = world.node("gpu01", gpus=2)
    jobs = [world.submit(name=name) for name in ("first", "second")]
    world.settle()
    odd, good = (str(TaskAttempt.objects.get(task__job=job).pk) for job in jobs)
    orders = {order.attempt: order for order in node.desired().orders}
    node.end(orders[odd], Exit(cause=Cause.EXITED, code=1))
    node.end(orders[good], Exit(cause=Cause.EXITED, code=0))
    node.containers = {key: node.containers[key] for key in (odd, good)}

    def refusing(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if sql.startswith("UPDATE") and UUID(odd).hex in str(params).replace("-", ""):
            raise DataError("a value out of range")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(refusing):
        assert node.report()
    states = []
    for job in jobs:
        job.refresh_from_db()
        states.append(job.state)
    assert states == [JobState.RUNNING, JobState.SUCCEEDED]
    (record,) = [one for one in caplog.records if one.levelname == "ERROR"]
    assert odd in record.getMessage()
    assert record.exc_info


@pytest.mark.parametrize(
    ("retries", "code", "states"),
    [
        (0, 1, [JobState.FAILED]),
        (1, 1, [JobState.WAITING, JobState.FAILED]),
        (-1, 1, [JobState.WAITING, JobState.WAITING]),
        (-2, 0, [JobState.WAITING, JobState.WAITING]),
        (0, 143, [JobState.WAITING, JobState.WAITING]),
        (5, 127, [JobState.FAILED]),
    ],
)
def test_retries_follow_the_job_file_and_the_exit_status(
    world: World, retries: int, code: int, states: list[JobState]
) -> None:
    node = world.node("gpu01")
    job = world.submit(jobRetryCount=retries)
    seen = []
    for _ in states:
        job.not_before = None
        job.save(update_fields=["not_before"])
        world.settle()
        node.finish(code=code)
        job.refresh_from_db()
        seen.append(job.state)
    assert seen == states


def test_a_retry_after_a_failure_waits_a_little_and_says_until_when_and_why(world: World) -> None:
    node = world.node("gpu01")
    job = world.submit(jobRetryCount=1)
    world.settle()
    node.finish(code=1)
    world.cycle()
    job.refresh_from_db()
    assert (job.state, job.waiting_code) == (JobState.WAITING, "backoff")
    end = job.attempts.get().end_message
    assert "worker/0 failed on gpu01" in end
    assert job.waiting_message == f"it is tried again at {job.not_before:%H:%M:%S} UTC: {end}"
    with override("zh-hans"):
        assert why_waits(job) == f"将于 UTC {job.not_before:%H:%M:%S} 再次尝试：{worded(end)}"
        assert worded(end) != end
    world.cycle(now=timezone.now() + timedelta(seconds=60))
    job.refresh_from_db()
    assert job.state == JobState.STARTING


def test_a_stop_while_waiting_ends_the_job_at_once(world: World) -> None:
    world.node("gpu01", gpus=1)
    world.submit()
    job = world.submit()
    world.cycle()
    job_stop(job=job, actor=world.user, now=timezone.now())
    job.refresh_from_db()
    assert (job.state, job.end_message) == (JobState.STOPPED, "Stopped by alice.")
    with pytest.raises(Conflict, match="is over already"):
        job_stop(job=job, actor=world.user, now=timezone.now())


def test_a_stop_while_running_asks_the_containers_and_waits_for_their_end(world: World) -> None:
    node = world.node("gpu01")
    job = world.submit(berth={"gracePeriod": 7})
    world.settle()
    job_stop(job=job, actor=world.user, now=timezone.now())
    job.refresh_from_db()
    assert job.state == JobState.STOPPING
    (order,) = node.desired().orders
    assert order.stop is not None
    assert (order.phase, order.stop.grace_s, order.stop.reason) == (Phase.STOP, 7, StopReason.USER)
    job_stop(job=job, actor=world.user, now=timezone.now())
    node.obey()
    job.refresh_from_db()
    assert job.state == JobState.STOPPED
    assert not Allocation.objects.filter(released_at__isnull=True).exists()


def test_an_image_that_is_not_there_fails_the_job_with_its_cause(world: World) -> None:
    node = world.node("gpu01")
    job = world.submit()
    world.cycle()
    (order,) = node.desired().orders
    node.end(order, Exit(cause=Cause.IMAGE_MISSING, message="pull access denied"))
    node.report()
    job.refresh_from_db()
    assert job.state == JobState.FAILED
    assert "its image was not found" in job.end_message
    assert "pull access denied" in job.end_message


def test_a_job_succeeds_as_soon_as_enough_tasks_did(world: World) -> None:
    one, two = world.node("gpu01", gpus=1), world.node("gpu02", gpus=1)
    job = world.submit(instances=2, role={"completion": {"minSucceededInstances": 1}})
    world.settle()
    one.finish()
    two.obey()
    job.refresh_from_db()
    assert job.state == JobState.SUCCEEDED


def test_a_time_limit_stops_the_job(world: World) -> None:
    node = world.node("gpu01")
    job = world.submit(berth={"timeLimit": "1m"})
    world.settle()
    world.cycle(now=timezone.now() + timedelta(seconds=61))
    node.obey()
    job.refresh_from_db()
    assert (job.state, job.end_reason) == (JobState.FAILED, EndReason.TIME_LIMIT)


def test_a_job_is_warned_once_before_its_time_limit(world: World) -> None:
    world.node("gpu01", gpus=1)
    job = world.submit(berth={"timeLimit": "2h"})
    world.settle()
    attempt = job.attempts.get()
    assert attempt.started_at is not None
    for minutes in (100, 110, 115, 119):
        world.cycle(now=attempt.started_at + timedelta(minutes=minutes))
    event = JobEvent.objects.get(job=job, code="time_limit_near")
    ends = attempt.started_at + timedelta(hours=2)
    assert event.message == f"Its time limit is reached at {ends:%Y-%m-%d %H:%M:%S} UTC: then it is stopped."
    assert event.at == attempt.started_at + timedelta(minutes=110)


def test_a_short_time_limit_is_not_warned_of(world: World) -> None:
    world.node("gpu01", gpus=1)
    world.submit(berth={"timeLimit": 300})
    world.settle()
    world.cycle(now=timezone.now() + timedelta(seconds=290))
    assert not JobEvent.objects.filter(code="time_limit_near").exists()


def test_who_stops_a_job_that_is_ending_for_another_reason_is_named_at_its_end(world: World) -> None:
    world.node("gpu01", gpus=1)
    job = world.submit()
    world.settle()
    why = wordings.PREEMPTED(job="bob/x#1", why=wordings.HIGHER())
    attempt = job.attempts.get()
    attempt_end(
        attempt=attempt, reason=EndReason.PREEMPTED, message=why, now=timezone.now(), stop=StopReason.PREEMPTED
    )  # fmt: skip
    job_stop(job=job, actor=world.user, now=timezone.now())
    world.settle()
    job.refresh_from_db()
    assert (job.state, job.end_reason, job.end_message) == (JobState.STOPPED, EndReason.STOPPED, "Stopped by alice.")
    attempt.refresh_from_db()
    assert (attempt.end_reason, attempt.end_message) == (EndReason.PREEMPTED, why)
    assert JobEvent.objects.get(code="stopped").message == "Stopped by alice."
