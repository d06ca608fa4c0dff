"""A node that was given up comes back with a parked job, which claims its GPU again if nobody else has the right to it
by now."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from nodes.protocol.parking import SUSPEND
from portal.hardware.models import CellType, Node, ReportsLane
from portal.hardware.services.silence import lane_pulse
from portal.jobs.models import Allocation, Claim, Job, JobAttempt, TaskAttempt
from portal.jobs.states import EndReason, JobState
from portal.parking.services.park import job_park, job_unpark
from portal.teams.models import VirtualCluster
from portal.teams.services.quotas import quota_set
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def node(world: World) -> ScriptedNode:
    """A node of one GPU that can park, and another one that stays."""
    node = world.node("gpu01", gpus=1)
    node.inventory = replace(node.inventory, capabilities=(SUSPEND,))
    node.report()
    VirtualCluster.objects.update(parking=True)
    return node


def given_up(world: World, *, lent: bool = False, gang: bool = True) -> Job:
    """A job that was parked on the node when that was lost; ``lent``: its GPU was lent."""
    job = world.submit(name="notebook", gang=gang)
    world.settle()
    world.node("gpu02", gpus=1)
    world.submit(name="other")
    world.settle()
    job_park(job=job, actor="alice", now=timezone.now())
    world.settle()
    if lent:
        world.submit(name="cheap", extras={"hivedScheduler": {"jobPriorityClass": "oppo"}})
        world.settle()
    long_ago = timezone.now() - timedelta(minutes=5)
    Node.objects.filter(name="gpu01").update(last_report_at=long_ago)
    lane_pulse(now=timezone.now())
    ReportsLane.objects.update(open_since=long_ago)
    world.cycle()
    world.cycle()
    assert TaskAttempt.objects.filter(job_attempt__job=job, lost_at=None).count() == 0
    assert not Claim.objects.exists()
    return job


def holders() -> set[str]:
    rows = Allocation.objects.filter(released_at__isnull=True)
    return set(rows.values_list("task_attempt__job_attempt__job__name", flat=True))


@pytest.mark.parametrize("gang", [True, False])
def test_it_is_parked_as_before_and_goes_on_when_it_is_resumed(world: World, node: ScriptedNode, gang: bool) -> None:
    job = given_up(world, gang=gang)
    for _ in range(2):  # a report may come twice
        node.report()
    world.settle()
    assert [(one.claimant_id, one.parked) for one in Claim.objects.all()] == [(job.pk, True)]
    assert holders() == {"other"}
    assert job_unpark(job=job, actor="alice", now=timezone.now())
    world.settle()
    assert holders() == {"notebook", "other"}
    assert JobAttempt.objects.get(job=job).end_reason == ""


def test_who_had_its_gpu_on_loan_comes_back_as_well(world: World, node: ScriptedNode) -> None:
    job = given_up(world, lent=True)
    node.report()
    world.settle()
    assert holders() == {"cheap", "other"}
    assert Claim.objects.get().claimant == job


def test_without_its_quota_it_waits_as_any_preempted_job(world: World, node: ScriptedNode) -> None:
    job = given_up(world)
    quota_set(vc=world.vc, cell_type=CellType.objects.get(child__isnull=True), count=0, now=timezone.now())
    node.report()
    world.settle()
    world.settle()
    assert JobAttempt.objects.get(job=job).end_reason == EndReason.PREEMPTED
    assert Job.objects.get(pk=job.pk).state == JobState.WAITING
    assert not Claim.objects.exists()


def test_if_its_quota_was_taken_elsewhere_it_stays_given_up(world: World, node: ScriptedNode) -> None:
    job = given_up(world)
    left = Allocation.objects.get(task_attempt__job_attempt__job=job)
    other = Allocation.objects.filter(released_at=None).get()
    Allocation.objects.filter(pk=other.pk).update(virtual_cell=left.virtual_cell)
    node.report()
    assert JobAttempt.objects.get(job=job).end_reason == EndReason.NODE_LOST
    assert not Claim.objects.exists()
