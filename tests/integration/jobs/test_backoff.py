"""What has ended is tried again after a pause, the longer the oftener it ended by itself: jobs, and single tasks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nodes.protocol.messages import Exit
from nodes.protocol.states import Cause, StopReason
from portal.jobs import wordings
from portal.jobs.models import Job, JobAttempt, JobEvent, Task, TaskAttempt
from portal.jobs.services.attempts import tasks_stop
from portal.jobs.services.retry_backoff import MOST, Blame, Ended, backoff
from portal.jobs.states import EndReason, JobState, TaskState
from portal.node_orders.services.container_spec import attempts_facts
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World
from tests.support.people.cast import Api
from tests.support.people.pages import Browser

BRIEF, LONG = timedelta(seconds=1), MOST
OWN, NODE, OTHERS = Blame.OWN, Blame.NODE, Blame.OTHERS
LOOSE = {"completion": {"minFailedInstances": -1, "minSucceededInstances": -1}}
"""A role whose tasks live and end each for itself."""


@pytest.mark.parametrize(
    ("newest_first", "seconds"),
    [
        ([OWN], 5),
        ([OWN, OWN], 10),
        ([OWN] * 8, 640),
        ([OWN] * 9, 900),
        ([OWN] * 30, 900),
        ([OTHERS], 0),
        ([OTHERS] * 30, 0),
        ([OTHERS, OWN, OWN], 0),
        ([OWN, *[OTHERS] * 8], 5),
        ([OWN, OTHERS, OWN], 10),
        ([NODE], 0),
        ([NODE, OWN, OWN], 0),
        ([NODE, NODE], 5),
        ([NODE, OTHERS, NODE, NODE], 10),
        ([OWN, NODE, NODE], 5),
    ],
)
def test_the_pause_counts_ends_of_the_same_kind(newest_first: Sequence[Blame], seconds: int) -> None:
    assert backoff(Ended(blame, BRIEF) for blame in newest_first) == timedelta(seconds=seconds)


def test_a_long_run_begins_the_count_anew() -> None:
    often = [Ended(OWN, BRIEF)] * 20
    assert backoff([Ended(OWN, LONG), *often]) == timedelta(seconds=5)
    assert backoff([Ended(OWN, BRIEF), Ended(OTHERS, LONG), *often]) == timedelta(seconds=5)
    assert backoff([*often[:2], Ended(OWN, LONG), *often]) == timedelta(seconds=20)


# ---------------------------------------------------------------- single tasks


def end_first(node: ScriptedNode, exit_: Exit) -> Task:
    """The node's first task ends so; it."""
    order = node.desired().orders[0]
    node.end(order, exit_)
    node.report()
    return TaskAttempt.objects.select_related("task").get(pk=order.attempt).task


def pause_of(task: Task) -> float:
    """Seconds from the end of its newest run until it is tried again."""
    task.refresh_from_db()
    told = JobEvent.objects.filter(code="task_retried", task_attempt__task=task).latest("id")
    return (task.not_before - told.at).total_seconds() if task.not_before else 0


def runs_of(job: Job) -> list[int]:
    return [task.attempts.count() for task in Task.objects.filter(job=job).order_by("index")]


def test_a_task_that_ends_by_itself_is_tried_again_after_a_pause_that_grows(world: World) -> None:
    node = world.node("gpu01", gpus=2)
    job = world.submit(instances=2, gang=False, role=LOOSE)
    world.settle()
    killed = Exit(cause=Cause.SIGNALLED, code=137, signal=9)
    task, seen = end_first(node, killed), []
    for _ in range(3):
        seen.append(pause_of(task))
        assert task.state == TaskState.WAITING
        before = runs_of(job)
        world.cycle()
        assert runs_of(job) == before, "it waits"
        assert task.not_before is not None
        world.cycle(now=task.not_before)
        world.obeyed()
        task.refresh_from_db()
        assert task.state == TaskState.RUNNING
        assert task.not_before is None, "a pause ends with its start"
        order = next(one for one in node.desired().orders if one.attempt == str(task.attempts.latest("number").pk))
        node.end(order, killed)
        node.report()
    assert seen == [5, 10, 20]
    assert runs_of(job)[1 - task.index] == 1, "its sibling runs on"
    job.refresh_from_db()
    assert job.state == JobState.RUNNING
    assert pause_of(task) == 40
    told = job.events.filter(code="task_retried").latest("id").message
    assert told.endswith(f"It is tried again at {task.not_before:%H:%M:%S} UTC.")
    assert "tried again in" in Browser(world.user).get(f"/jobs/{job.pk}").text
    shown = Api(world.user).get(f"jobs/{job.pk}/tasks")["results"][task.index]
    assert datetime.fromisoformat(shown["not_before"]) == task.not_before


def test_what_others_do_to_a_task_costs_no_pause(world: World) -> None:
    node = world.node("gpu01", gpus=1)
    job = world.submit(gang=False, role=LOOSE)
    world.settle()
    for reason in (StopReason.PREEMPTED, StopReason.DRAINED, StopReason.PREEMPTED):
        rows = TaskAttempt.objects.filter(released_at=None)
        tasks_stop(rows, reason=reason, message=wordings.NODE_DRAINED(node="gpu01"), now=timezone.now())
        node.obey()
        task = Task.objects.get(job=job)
        assert (task.state, task.not_before) == (TaskState.WAITING, None)
        world.settle()


def test_a_nodes_fault_costs_a_pause_from_the_second_on(world: World) -> None:
    nodes = [world.node(name, gpus=1) for name in ("gpu01", "gpu02", "gpu03")]
    world.submit(gang=False, role=LOOSE)
    seen, now = [], timezone.now()
    for _ in nodes:
        world.cycle(now=now)
        (node,) = [node for node in nodes if node.desired().orders]
        task = end_first(node, Exit(cause=Cause.STORAGE_MISSING, message="storage data is not mounted at /data"))
        node.obey()
        seen.append(pause_of(task))
        now = task.not_before or now
    assert seen == [0, 5, 10]


def test_a_job_that_waits_as_a_whole_holds_no_single_task_back(world: World) -> None:
    node = world.node("gpu01", gpus=2)
    job = world.submit(instances=2, gang=False, jobRetryCount=1)
    world.settle()
    task = end_first(node, Exit(cause=Cause.SIGNALLED, code=137, signal=9))
    assert pause_of(task) == 5
    other = next(one for one in node.desired().orders if one.attempt in set_of_live(job))
    node.end(other, Exit(cause=Cause.EXITED, code=1))
    node.report()
    job.refresh_from_db()
    assert job.state == JobState.WAITING
    assert job.not_before is not None
    assert not Task.objects.filter(job=job, not_before__isnull=False).exists()
    world.cycle(now=job.not_before)
    assert sorted(runs_of(job)) == [2, 2]


def set_of_live(job: Job) -> set[str]:
    return {
        str(key) for key in TaskAttempt.objects.filter(task__job=job, released_at=None).values_list("pk", flat=True)
    }


def test_the_past_runs_of_a_task_are_not_read_for_its_next(world: World) -> None:
    node = world.node("gpu01", gpus=1)
    job = world.submit(gang=False, role={**LOOSE, "taskRetryCount": -1})
    for _ in range(4):
        Task.objects.update(not_before=None)
        world.settle()
        node.finish(code=1)
        node.obey()
    attempt = job.attempts.select_related("job").get()
    with CaptureQueriesContext(
        connection,
    ) as asked:
        facts, failed = attempts_facts([attempt])
    assert not failed
    assert facts[attempt.pk].peers[0].address == "127.0.0.1"
    (sql,) = [one["sql"] for one in asked if "taskattempt" in one["sql"]]
    with connection.cursor() as cursor:
        cursor.execute(sql)
        assert len(cursor.fetchall()) == 1


# ---------------------------------------------------------------- jobs


def test_preemptions_are_no_failures_of_the_job(world: World) -> None:
    """Taken back eight times, it waits as long after its first own failure as any other."""
    node = world.node("gpu01")
    job = world.submit(jobRetryCount=3)
    JobAttempt.objects.bulk_create(
        JobAttempt(job=job, number=number, state="ended", created_at=world.now, end_reason=EndReason.PREEMPTED)
        for number in range(1, 9)
    )
    world.settle()
    node.finish(code=1)
    job.refresh_from_db()
    assert (job.state, job.retries) == (JobState.WAITING, 8)
    assert waits(job) == 5


def waits(job: Job) -> float:
    """Seconds from the end of its newest attempt until it is tried again."""
    told = job.events.filter(code="requeued").latest("id")
    return (job.not_before - told.at).total_seconds() if job.not_before else 0


def test_a_job_that_is_run_again_after_a_success_waits_in_between(world: World) -> None:
    node = world.node("gpu01")
    job, seen = world.submit(jobRetryCount=-2), []
    for _ in range(3):
        world.settle()
        node.finish()
        job.refresh_from_db()
        seen.append(waits(job))
        Job.objects.update(not_before=None)
    assert seen == [5, 10, 20]


def test_a_gang_that_finds_one_node_after_the_other_at_fault_waits_longer_each_time(world: World) -> None:
    nodes = [world.node(name, gpus=1) for name in ("gpu01", "gpu02", "gpu03")]
    job, seen = world.submit(), []
    for _ in nodes:
        world.cycle()
        (node,) = [node for node in nodes if node.desired().orders]
        end_first(node, Exit(cause=Cause.STORAGE_MISSING, message="storage data is not mounted at /data"))
        node.obey()
        job.refresh_from_db()
        seen.append(waits(job))
        Job.objects.update(not_before=None)
    assert seen == [5, 10, 20]


@pytest.mark.parametrize("whose", [Job, Task])
def test_a_pause_that_a_clock_set_that_was_ahead_holds_nothing_up(world: World, whose: type[Job] | type[Task]) -> None:
    node = world.node("gpu01", gpus=1)
    job = world.submit(gang=whose is Job, jobRetryCount=1, role={"taskRetryCount": 1})
    world.settle()
    end_first(node, Exit(cause=Cause.EXITED, code=1))
    now = timezone.now()
    whose._default_manager.update(not_before=now + MOST)
    world.settle()
    assert runs_of(job) == [1], "so long a pause may be"
    whose._default_manager.update(not_before=now + timedelta(days=10))
    world.settle()
    assert runs_of(job) == [2]
