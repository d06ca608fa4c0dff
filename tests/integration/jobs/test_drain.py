"""A node is drained: its jobs go elsewhere with their grace, in their old place, and lose no retry."""

from __future__ import annotations

import pytest

from nodes.protocol.states import Phase, StopReason
from portal.hardware.services.nodes import node_set_intent
from portal.jobs.models import Job, Task
from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(world: World) -> World:
    """Two nodes of 2 GPUs."""
    for name in ("gpu01", "gpu02"):
        world.node(name, gpus=2)
    return world


def drain(world: World, name: str, intent: str = "draining") -> None:
    node = world.nodes[name].row
    node_set_intent(node=node, intent=intent, reason="new fans", actor="root", now=world.now)


def places(job: Job) -> dict[int, str]:
    """Where each task of the job runs now."""
    rows = Task.objects.filter(job=job, attempts__released_at__isnull=True, attempts__isnull=False)
    return dict(rows.values_list("index", "attempts__node__name"))


def test_a_drained_job_ends_with_its_grace_and_goes_elsewhere_without_losing_a_retry(world: World) -> None:
    job = world.submit(gpu=2, berth={"gracePeriod": 77})
    world.settle()
    (home,) = places(job).values()
    drain(world, home)
    world.cycle()
    (order,) = world.nodes[home].desired().orders
    assert order.phase is Phase.STOP
    assert order.stop is not None
    assert (order.stop.reason, order.stop.grace_s) == (StopReason.DRAINED, 77)
    assert order.stop.message == f"Node {home} is drained: new fans."
    world.settle()
    job.refresh_from_db()
    assert job.state == "running"
    assert set(places(job).values()) == {"gpu01", "gpu02"} - {home}
    assert (job.retries_counted, job.avoid_nodes) == (0, {})
    first = job.attempts.order_by("number").first()
    assert first is not None
    assert first.end_reason == "drained"


def test_a_drained_job_waits_in_its_old_place_where_there_is_no_room_elsewhere(world: World) -> None:
    first = world.submit(name="first", gpu=2)
    world.submit(name="second", gpu=2)
    world.settle()
    (home,) = places(first).values()
    drain(world, home)
    world.settle()
    later = world.submit(name="later", gpu=2)
    world.settle()
    first.refresh_from_db()
    assert first.state == "waiting"
    (other,) = {"gpu01", "gpu02"} - {home}
    world.nodes[other].finish()
    world.settle()
    first.refresh_from_db()
    later.refresh_from_db()
    assert (first.state, later.state) == ("running", "waiting")


def test_a_gang_leaves_as_a_whole(world: World) -> None:
    gang = world.submit(instances=2, gpu=2)
    world.settle()
    drain(world, "gpu01")
    world.settle()
    gang.refresh_from_db()
    assert (gang.state, places(gang)) == ("waiting", {})


def test_of_a_job_that_is_no_gang_only_the_tasks_there_move(world: World) -> None:
    job = world.submit(instances=4, gpu=1, gang=False)
    world.settle()
    stayed = {index for index, node in places(job).items() if node == "gpu02"}
    drain(world, "gpu01")
    world.settle()
    job.refresh_from_db()
    assert (job.state, job.attempts.count()) == ("running", 1)
    assert places(job) == dict.fromkeys(stayed, "gpu02")
    drain(world, "gpu01", intent="open")
    world.settle()
    assert len(places(job)) == 4
    assert set(Task.objects.filter(job=job).values_list("retries_counted", flat=True)) == {0}


def test_a_cordoned_node_keeps_what_runs_and_takes_nothing_new(world: World) -> None:
    job = world.submit(gpu=1)
    world.settle()
    (home,) = places(job).values()
    drain(world, home, intent="cordoned")
    more = world.submit(instances=3, gpu=1, gang=False)
    world.settle()
    assert set(places(job).values()) == {home}
    assert set(places(more).values()) == {"gpu01", "gpu02"} - {home}
