"""A node that was given up comes back with its tasks: they go on, or what they ended with counts."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from nodes.protocol.messages import Exit
from nodes.protocol.states import Cause, ContainerState, Phase, StopReason
from portal.hardware.models import Node, ReportsLane
from portal.hardware.services.silence import lane_pulse
from portal.jobs.models import Allocation, Job, Task, TaskAttempt, Usage
from portal.jobs.services.lost import node_tasks_lose
from portal.jobs.services.pause import job_pause
from portal.jobs.services.stop import job_stop
from portal.jobs.states import JobState
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World


def given_up(world: World, **asked: object) -> tuple[Job, ScriptedNode]:
    """A job whose node was lost with it, and which waits since two other nodes are full."""
    for name in ("gpu01", "gpu02", "gpu03"):
        world.node(name, gpus=2)
    job = world.submit(**{"gpu": 2, **asked})
    for name in ("second", "third"):
        world.submit(name=name, gpu=2)
    world.settle()
    row = TaskAttempt.objects.filter(job_attempt__job=job).select_related("node")[0]
    node = world.nodes[row.node.name]
    long_ago = timezone.now() - timedelta(minutes=5)
    Node.objects.filter(name=node.name).update(last_report_at=long_ago)
    lane_pulse(now=timezone.now())
    ReportsLane.objects.update(open_since=long_ago)
    world.cycle()
    assert seen(job)[0] in {JobState.WAITING, JobState.RUNNING}
    assert TaskAttempt.objects.filter(job_attempt__job=job, lost_at=None).count() == 0
    return job, node


def seen(job: Job) -> tuple[str, list[int]]:
    """Its state, and the numbers of its attempts."""
    job.refresh_from_db()
    return job.state, list(job.attempts.order_by("number").values_list("number", flat=True))


def end(node: ScriptedNode, exit_: Exit) -> None:
    (attempt,) = node.containers
    order = next(one for one in node.desired().orders if one.attempt == attempt)
    node.end(order, exit_)


@pytest.mark.parametrize("gang", [True, False])
def test_a_task_that_still_runs_goes_on_in_the_same_attempt(world: World, gang: bool) -> None:
    job, node = given_up(world, gang=gang)
    for _ in range(2):  # a report may come twice
        node.report()
    assert [order.phase for order in node.desired().orders] == [Phase.RUN]
    world.settle()
    assert seen(job) == (JobState.RUNNING, [1])
    held = Allocation.objects.filter(task_attempt__job_attempt__job=job, released_at=None)
    assert list(held.values_list("standing", flat=True)) == ["guaranteed", "guaranteed"], "inside its quota again"
    node.finish()
    world.settle()
    assert seen(job) == (JobState.SUCCEEDED, [1])


@pytest.mark.parametrize(("code", "state"), [(0, JobState.SUCCEEDED), (1, JobState.FAILED)])
def test_what_a_task_ended_with_meanwhile_counts(world: World, code: int, state: str) -> None:
    job, node = given_up(world)
    end(node, Exit(cause=Cause.EXITED, code=code))
    node.report()
    node.report()
    assert seen(job) == (state, [1])
    assert not Allocation.objects.filter(task_attempt__job_attempt__job=job, released_at=None).exists()


def test_a_task_whose_server_was_started_anew_runs_whole_again(world: World) -> None:
    job, node = given_up(world)
    end(node, Exit(cause=Cause.ENGINE_FAULT, message="its end was not seen"))
    node.report()
    world.settle()
    assert seen(job) == (JobState.RUNNING, [1, 2])


def test_a_task_that_heard_of_its_stop_is_not_taken_up(world: World) -> None:
    job, node = given_up(world)
    (order,) = node.desired().orders
    node.set(order, ContainerState.RUNNING)
    node.report()
    assert seen(job) == (JobState.WAITING, [1])
    assert [order.phase for order in node.desired().orders] == [Phase.STOP]


def test_a_stop_that_was_on_its_way_ends_what_was_taken_up_as_lost(world: World) -> None:
    job, node = given_up(world)
    node.report()
    assert seen(job) == (JobState.RUNNING, [1])
    end(node, Exit(cause=Cause.STOPPED, code=143, stop_reason=StopReason.LOST))
    node.report()
    assert seen(job) == (JobState.WAITING, [1])
    assert job.retries_counted == 0


def test_where_another_attempt_has_begun_the_old_one_is_stopped(world: World) -> None:
    job, node = given_up(world)
    world.nodes.pop(node.name)
    world.node("gpu04", gpus=2)
    world.settle()
    assert seen(job) == (JobState.RUNNING, [1, 2])
    node.report()
    assert [order.phase for order in node.desired().orders] == [Phase.STOP]
    end(node, Exit(cause=Cause.EXITED, code=0))
    node.report()
    assert seen(job) == (JobState.RUNNING, [1, 2])


@pytest.mark.parametrize("what", ["stopped", "paused", "GPUs let go"])
def test_what_shall_not_run_any_more_is_stopped(world: World, what: str) -> None:
    job, node = given_up(world)
    if what == "stopped":
        job_stop(job=job, actor=world.user, now=timezone.now())
    elif what == "paused":
        job_pause(job=job, actor="alice", now=timezone.now())
    else:
        now = timezone.now()
        Allocation.objects.filter(task_attempt__node__name=node.name).update(released_at=now)
        TaskAttempt.objects.filter(node__name=node.name).update(released_at=now)
    before = seen(job)
    node.report()
    assert seen(job) == before
    assert [order.phase for order in node.desired().orders] == [Phase.STOP]


def test_a_gang_comes_back_whole_or_not_at_all(world: World) -> None:
    job, node = given_up(world, instances=2, gpu=1)
    attempt, whole = next(iter(node.containers.items()))
    del node.containers[attempt]
    node.report()
    assert seen(job) == (JobState.WAITING, [1])
    node.containers[attempt] = whole
    node.report()
    assert seen(job) == (JobState.RUNNING, [1])


def scattered(world: World, *, silent: int, **asked: object) -> tuple[Job, list[ScriptedNode]]:
    """A gang of two tasks on two nodes, of which so many were lost with it, and which waits since no other has room.
    Its nodes, those that were lost first."""
    for number in range(1, 6):
        world.node(f"gpu{number:02}", gpus=2)
    job = world.submit(instances=2, gpu=2, **asked)
    for name in ("second", "third", "fourth"):
        world.submit(name=name, gpu=2)
    world.settle()
    assert seen(job) == (JobState.RUNNING, [1])
    rows = TaskAttempt.objects.filter(job_attempt__job=job).select_related("node").order_by("task__index")
    nodes = [world.nodes[row.node.name] for row in rows]
    lost = [world.nodes.pop(node.name) for node in nodes[:silent]]
    long_ago = timezone.now() - timedelta(minutes=5)
    Node.objects.filter(name__in=[node.name for node in lost]).update(last_report_at=long_ago)
    lane_pulse(now=timezone.now())
    ReportsLane.objects.update(open_since=long_ago)
    world.settle()
    assert seen(job) == (JobState.WAITING, [1])
    return job, nodes


def phases(node: ScriptedNode) -> list[Phase]:
    return [order.phase for order in node.desired().orders]


WELL, BADLY = Exit(cause=Cause.EXITED, code=0), Exit(cause=Cause.EXITED, code=1)


@pytest.mark.parametrize("first_ended", [False, True])
@pytest.mark.parametrize("second_ended", [False, True])
def test_a_gang_whose_nodes_were_lost_together_goes_on_once_the_last_is_back(
    world: World, first_ended: bool, second_ended: bool
) -> None:
    job, (first, second) = scattered(world, silent=2)
    for node, ended in ((first, first_ended), (second, second_ended)):
        if ended:
            end(node, WELL)
    for _ in range(2):
        first.report()
        assert seen(job) == (JobState.WAITING, [1])
        assert phases(first)[0] is not Phase.STOP or first_ended
        world.cycle()
    second.report()
    assert seen(job)[1] == [1]
    for node in (first, second):
        assert phases(node) in ([Phase.RUN], [Phase.REMOVE], [])
        node.finish()
    assert seen(job) == (JobState.SUCCEEDED, [1])


@pytest.mark.parametrize("what", ["time", "stopped", "begun anew"])
def test_a_gang_is_not_waited_for_without_end(world: World, what: str) -> None:
    job, (first, second) = scattered(world, silent=2)
    first.report()
    assert phases(first) == [Phase.RUN]
    later = timezone.now()
    if what == "time":
        later += timedelta(seconds=90)  # all others are silent then, and so none is lost
    elif what == "stopped":
        job_stop(job=job, actor=world.user, now=timezone.now())
    else:
        for name in ("gpu06", "gpu07"):
            world.node(name, gpus=2)
        world.settle()
        assert seen(job) == (JobState.RUNNING, [1, 2])
    world.cycle(now=later)
    first.report()
    assert phases(first) == [Phase.STOP]
    before = seen(job)
    second.report()
    assert phases(second) == [Phase.STOP]
    assert seen(job) == before


@pytest.mark.parametrize("ended", [None, WELL, BADLY])
def test_a_gang_of_which_a_task_was_stopped_meanwhile_runs_whole_again(world: World, ended: Exit | None) -> None:
    job, (first, _) = scattered(world, silent=1)
    if ended:
        end(first, ended)
    first.report()
    assert seen(job) == (JobState.WAITING, [1])
    assert ended or phases(first) == [Phase.STOP]
    world.nodes[first.name] = first
    world.settle()
    assert seen(job) == (JobState.RUNNING, [1, 2])
    assert job.retries_counted == 0


@pytest.mark.parametrize("first_back", [0, 1])
def test_what_fails_apart_from_its_gang_runs_whole_again(world: World, first_back: int) -> None:
    job, nodes = scattered(world, silent=2)
    end(nodes[0], BADLY)
    for node in (nodes[first_back], nodes[1 - first_back]):
        node.report()
    assert seen(job) == (JobState.WAITING, [1])


def test_a_success_that_is_enough_for_the_job_counts_though_the_others_were_stopped(world: World) -> None:
    job, (first, _) = scattered(
        world, silent=1, role={"completion": {"minFailedInstances": -1, "minSucceededInstances": 1}}
    )
    end(first, WELL)
    first.report()
    assert seen(job) == (JobState.SUCCEEDED, [1])
    assert set(Task.objects.filter(job=job).values_list("state", flat=True)) == {"succeeded", "stopped"}


def test_use_of_a_task_without_gpus_is_charged_once(world: World) -> None:
    node = world.node("gpu01", gpus=0)
    job = world.submit(gpu=0)
    world.settle()
    TaskAttempt.objects.update(started_at=timezone.now() - timedelta(hours=2), created_at=world.now - timedelta(days=1))
    node_tasks_lose(node=node.row, now=timezone.now())
    assert sum(Usage.objects.values_list("amount", flat=True)) > 0
    node.report()
    assert seen(job) == (JobState.RUNNING, [1])
    assert sum(Usage.objects.values_list("amount", flat=True)) == 0
