"""The next attempt watches the lease in the job folder wherever one before it may still write there."""

from __future__ import annotations

import pytest
from django.utils import timezone

from nodes.protocol.messages import Exit, Progress
from nodes.protocol.states import Cause, ContainerState, StopReason
from portal.accounts.models import ClusterRole
from portal.data_folder.backups import restore_note
from portal.hardware.models import Node
from portal.hardware.states import NodeHealth
from portal.jobs.models import Job, JobAttempt, TaskAttempt
from portal.jobs.services.attempts import attempt_end
from portal.jobs.states import EndReason
from portal.scheduler.reconcile import jobs_reconcile
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person

PAST = "what was started of it since the backup"


@pytest.fixture
def root(world: World) -> Api:
    return Api(person("root", ClusterRole.ADMIN))


def waits(job: Job) -> list[str]:
    """What each run of its first task waits for."""
    rows = TaskAttempt.objects.filter(task__job=job, task__index=0)
    return list(rows.order_by("number").values_list("waits_for", flat=True))


def drained(job: Job) -> None:
    attempt = JobAttempt.objects.select_related("job").get(job=job, end_reason="")
    attempt_end(
        attempt=attempt, reason=EndReason.DRAINED, message="", now=timezone.now(), stop=StopReason.DRAINED
    )  # fmt: skip


def two_of_which_one_has_the_job(world: World, root: Api) -> Job:
    """It runs on gpu01."""
    for name in ("gpu01", "gpu02"):
        world.node(name, gpus=1)
    root.call("PATCH", "nodes/gpu02", {"intent": "cordoned"})
    job = world.submit(gpu=1)
    world.settle()
    root.call("PATCH", "nodes/gpu02", {"intent": "open"})
    return job


def test_of_a_container_that_outlives_sigkill(world: World, root: Api) -> None:
    job = two_of_which_one_has_the_job(world, root)
    drained(job)
    node = world.nodes["gpu01"]
    (order,) = node.desired().orders
    node.end(order, Exit(cause=Cause.UNKILLABLE))
    node.report()
    world.cycle()
    assert waits(job) == ["", "attempt 1 on gpu01"]


def unheard(world: World) -> ScriptedNode:
    """gpu01 is given up: it is cut off, and its container runs on."""
    Node.objects.filter(name="gpu01").update(health=NodeHealth.LOST)
    jobs_reconcile(now=timezone.now())
    return world.nodes.pop("gpu01")


def test_of_a_server_that_was_given_up_and_removed(world: World, root: Api) -> None:
    job = two_of_which_one_has_the_job(world, root)
    unheard(world)
    assert root.call("DELETE", "nodes/gpu01").status_code == 200
    world.settle()
    assert waits(job) == ["", "attempt 1 on gpu01"]


def test_not_of_a_removed_server_that_had_said_that_the_container_was_gone(world: World, root: Api) -> None:
    job = two_of_which_one_has_the_job(world, root)
    node = unheard(world)
    node.obey()
    Node.objects.filter(name="gpu01").update(health=NodeHealth.LOST)
    assert root.call("DELETE", "nodes/gpu01").status_code == 200
    world.settle()
    assert waits(job) == ["", ""]


def test_of_a_past_that_nobody_knows_until_the_task_has_run(world: World) -> None:
    node = world.node("gpu01", gpus=1)
    job = world.submit(gpu=1)
    restore_note(made_at=timezone.now(), now=timezone.now())
    world.cycle()
    (order,) = node.desired().orders
    node.set(order, ContainerState.ACCEPTED, progress=Progress(code="lease", message="it still writes"))
    node.report()
    for told in ([PAST, PAST], [PAST, PAST, ""]):
        drained(job)
        world.settle()
        assert waits(job) == told


def test_of_a_past_that_nobody_knows_each_task_waits_by_itself(world: World) -> None:
    node = world.node("gpu01", gpus=2)
    job = world.submit(gpu=1, instances=2, gang=False)
    restore_note(made_at=timezone.now(), now=timezone.now())
    world.cycle()
    first, second = sorted(node.desired().orders, key=lambda order: node.spec(order).index)
    node.set(first, ContainerState.RUNNING)
    node.set(second, ContainerState.ACCEPTED, progress=Progress(code="lease", message="it still writes"))
    node.report()
    drained(job)
    world.settle()
    again = TaskAttempt.objects.filter(task__job=job, number=2).order_by("task__index")
    assert list(again.values_list("waits_for", flat=True)) == ["", PAST]
