"""Jobs avoid nodes that failed them: for a while, and only where another node has a place for them."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from nodes.protocol.messages import Exit
from nodes.protocol.states import Cause
from portal.hardware.models import Node, ReportsLane
from portal.hardware.outages import LATE
from portal.hardware.services.silence import lane_pulse
from portal.jobs.models import Job, TaskAttempt
from portal.jobs.services.avoided_nodes import ENDLESS, node_avoid, nodes_avoided
from portal.jobs.states import JobState
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World


def silent_for_a_while(world: World, node: ScriptedNode) -> None:
    """The portal took in all the time what the others said."""
    now = timezone.now()
    long_ago = now - timedelta(minutes=5)
    Node.objects.filter(name=node.name).update(last_report_at=long_ago)
    lane_pulse(now=now)
    ReportsLane.objects.update(open_since=long_ago)
    world.cycle(now=now)


def home(job: Job) -> str:
    return TaskAttempt.objects.filter(job_attempt__job=job, released_at=None).get().node.name


def full_cluster(world: World) -> Job:
    """Three nodes of two GPUs, a job on each; the first of them."""
    for name in ("gpu01", "gpu02", "gpu03"):
        world.node(name, gpus=2)
    job, _, _ = [world.submit(name=name, gpu=2) for name in ("first", "second", "third")]
    world.settle()
    return job


def test_a_job_goes_back_at_once_to_its_node_that_was_silent_for_a_while(world: World) -> None:
    job = full_cluster(world)
    node = world.nodes[home(job)]
    silent_for_a_while(world, node)
    job.refresh_from_db()
    assert job.state == JobState.WAITING
    node.containers.clear()
    node.report()
    world.settle()
    job.refresh_from_db()
    assert (job.state, home(job)) == (JobState.RUNNING, node.name)


def test_a_job_waits_for_no_other_node_while_the_one_that_failed_it_has_a_place(world: World) -> None:
    full_cluster(world)
    node = world.node("gpu04", gpus=2)
    job = world.submit(name="fourth", gpu=2)
    world.cycle()
    (order,) = node.desired().orders
    node.end(order, Exit(cause=Cause.DEVICE_FAULT, message="could not select device driver"))
    node.report()
    node.containers.clear()
    node.report()
    world.cycle(now=timezone.now() + timedelta(minutes=1))
    job.refresh_from_db()
    assert ([*job.avoid_nodes], job.state, home(job)) == (["gpu04"], JobState.STARTING, "gpu04")


@pytest.mark.parametrize(
    ("cause", "minutes"),
    [(Cause.PORT_TAKEN, 5), (Cause.NO_SPACE, 5), (LATE, 30), (Cause.DEVICE_FAULT, 15), (ENDLESS, 30)],
)
def test_a_fault_is_forgotten_after_minutes(world: World, cause: str, minutes: int) -> None:
    world.node("gpu01")
    job, now = world.submit(), world.now
    other = Job.objects.get(pk=job.pk)
    node_avoid(job=other, node="gpu02", cause=Cause.NO_SPACE, now=now - timedelta(minutes=5))
    node_avoid(job=job, node="gpu01", cause=cause, now=now)
    told = json.dumps(job.avoid_nodes)
    assert nodes_avoided(told, now - timedelta(seconds=1)) == {"gpu01", "gpu02"}, "each for its own time"
    assert nodes_avoided(told, now + timedelta(minutes=minutes, seconds=-1)) == {"gpu01"}
    assert nodes_avoided(told, now + timedelta(minutes=minutes)) == frozenset()
    assert nodes_avoided(told, now - timedelta(days=1)) == frozenset(), "the clock was wrong then"
