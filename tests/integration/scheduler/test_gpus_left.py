"""A task whose container has ended while processes of it are still on its GPUs: its job ends at once, and the GPUs are
free when their node says that none is held."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone

from nodes.protocol.messages import Exit
from nodes.protocol.states import Cause, ContainerState, Phase
from portal.accounts.models import ClusterRole, User
from portal.hardware.models import Node
from portal.hardware.states import NodeHealth
from portal.jobs.models import Allocation, Job, Standing, TaskAttempt, Usage
from portal.jobs.states import JobState
from portal.scheduler.reconcile import jobs_reconcile
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser

if TYPE_CHECKING:
    from tests.support.cluster.scripted_node import ScriptedNode
    from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db
Teams = dict[str, User]


def held() -> int:
    return Allocation.objects.filter(released_at__isnull=True).count()


def ended_on(world: World, job: Job, code: int = 0) -> ScriptedNode:
    """The container of the job's only task has ended, and something of it is left on its GPUs. Its node."""
    row = TaskAttempt.objects.get(task__job=job, released_at=None)
    node = world.nodes[row.node.name]
    gpus = tuple(row.allocations.order_by("leaf").values_list("leaf__uuid", flat=True))
    (order,) = (one for one in node.desired().orders if one.attempt == str(row.pk))
    node.end(order, Exit(cause=Cause.EXITED, code=code))
    node.containers[order.attempt] = replace(node.containers[order.attempt], gpus=gpus)
    assert node.report()
    job.refresh_from_db()
    return node


def all_gone(node: ScriptedNode) -> None:
    node.containers = {key: replace(one, gpus=()) for key, one in node.containers.items()}
    assert node.report()


def running(world: World, gpu: int = 2, **changes: object) -> Job:
    job = world.submit(gpu=gpu, **changes)
    world.settle()
    return job


def usage() -> list[tuple[object, ...]]:
    return sorted(Usage.objects.values_list("resource", "hour", "amount"))


def test_the_job_ends_at_once_and_its_gpus_are_free_when_the_last_process_is_gone(world: World, teams: Teams) -> None:
    job = running(world)
    node = ended_on(world, job)
    assert job.state == JobState.SUCCEEDED
    assert (held(), {one.standing for one in Allocation.objects.all()}) == (2, {Standing.BORROWED})
    charged = usage()
    assert charged
    for _ in range(2):
        node.report()
        assert held() == 2, "the same again is no news"
    all_gone(node)
    row = TaskAttempt.objects.get(task__job=job)
    assert (held(), row.released_at is not None, row.removed_at) == (0, True, None)
    released = row.released_at
    node.report()
    world.settle()
    row.refresh_from_db()
    assert (node.containers, row.released_at, usage()) == ({}, released, charged)


def test_nothing_is_placed_on_them_meanwhile_and_its_team_has_its_quota_back(world: World, teams: Teams) -> None:
    first = running(world, name="first")
    node = ended_on(world, first)
    second = running(world, name="second")
    (there,) = Node.objects.filter(task_attempts__task__job=second)
    assert there.name != node.name
    assert set(Allocation.objects.filter(task_attempt__task__job=second).values_list("standing", flat=True)) == {
        Standing.GUARANTEED
    }
    third = running(world, name="third", extras={"hivedScheduler": {"jobPriorityClass": "oppo"}})
    third.refresh_from_db()
    assert third.state == JobState.WAITING
    all_gone(node)
    world.settle()
    third.refresh_from_db()
    assert third.state == JobState.RUNNING


def test_a_job_that_is_tried_again_begins_elsewhere_meanwhile(world: World, teams: Teams) -> None:
    job = running(world, jobRetryCount=1)
    node = ended_on(world, job, code=1)
    assert job.state == JobState.WAITING
    Job.objects.filter(pk=job.pk).update(not_before=None)
    world.settle()
    job.refresh_from_db()
    newest = TaskAttempt.objects.filter(task__job=job).latest("created_at")
    assert (job.state, newest.node.name != node.name, held()) == (JobState.RUNNING, True, 4)
    assert newest.waits_for == f"attempt 1 on {node.name}", "what is left may still write the job's folder"


def test_a_node_that_falls_silent_with_them_is_removed_as_any_other(world: World, teams: Teams) -> None:
    job = running(world)
    node = ended_on(world, job)
    Node.objects.filter(name=node.name).update(health=NodeHealth.LOST)
    jobs_reconcile(now=timezone.now())
    assert held() == 2
    api = Api(person("root", ClusterRole.ADMIN))
    assert api.call("DELETE", f"nodes/{node.name}").status_code == 200
    assert held() == 0


def test_a_node_that_was_given_up_and_comes_back_with_them_lets_them_go_as_well(world: World, teams: Teams) -> None:
    job = running(world)
    row = TaskAttempt.objects.get(task__job=job)
    Node.objects.filter(pk=row.node_id).update(health=NodeHealth.LOST)
    jobs_reconcile(now=timezone.now())
    charged = usage()
    node = ended_on(world, job)
    assert held() >= 2
    left = Allocation.objects.filter(task_attempt=row, released_at=None)
    assert left.count() == 2
    all_gone(node)
    assert (left.count(), usage()) == (0, charged)


def test_a_node_that_knows_nothing_of_the_task_any_more_holds_nothing(world: World, teams: Teams) -> None:
    """Its agent was set up anew, and the container with it."""
    job = running(world)
    node = ended_on(world, job)
    TaskAttempt.objects.update(archived_to=0, log_complete=True)
    jobs_reconcile(now=timezone.now())
    (order,) = node.desired().orders
    assert order.phase is Phase.REMOVE
    node.containers.clear()
    node.report()
    assert (held(), TaskAttempt.objects.get(task__job=job).state) == (0, ContainerState.TERMINATED)


def test_its_page_says_why_the_gpu_is_not_free(world: World, teams: Teams) -> None:
    job = running(world)
    node = ended_on(world, job)
    page = Browser(person("root", ClusterRole.ADMIN)).get(f"/cluster/nodes/{node.name}")
    assert "ended It holds its place here until its last process is gone." in page.text
    all_gone(node)
    page = Browser(User.objects.get(username="root")).get(f"/cluster/nodes/{node.name}")
    assert "last process" not in page.text
