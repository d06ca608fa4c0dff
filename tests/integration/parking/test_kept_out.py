"""A parked job runs already: what keeps a waiting job out of the queue does not end it, nor keep it off its GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from django.utils import timezone

from nodes.protocol.parking import SUSPEND
from nodes.protocol.states import Cause
from portal.hardware.models import Node
from portal.jobs.models import Claim, Job, JobAttempt
from portal.jobs.services.avoided_nodes import node_avoid
from portal.parking.models import Parking, ParkState
from portal.parking.services.park import job_park, job_unpark
from portal.storages.models import Storage
from portal.storages.services.storages import storage_create
from portal.storages.services.ties import storage_tie
from portal.teams.models import VirtualCluster
from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db
ROOT = "/mnt/berth/data"


@pytest.fixture
def job(world: World) -> Job:
    """A parked job that has a storage, on the only node."""
    storage_create(name="data", vcs=[world.vc], now=world.now, actor="root", root=ROOT, must_be_mount=False)
    node = world.node("gpu01", gpus=1, root=ROOT)
    node.inventory = replace(node.inventory, capabilities=(SUSPEND,))
    node.report()
    VirtualCluster.objects.update(parking=True)
    job = world.submit(extras={"gangAllocation": True, "storages": [{"name": "data", "mountPath": "/data"}]})
    world.settle()
    job_park(job=job, actor="alice", now=timezone.now())
    world.settle()
    assert Claim.objects.get().parked
    return job


def _storage_away() -> None:
    storage_tie(storage=Storage.objects.get(), node=Node.objects.get(), tied=False, actor="root", now=timezone.now())


def _node_avoided() -> None:
    node_avoid(job=Job.objects.get(), node="gpu01", cause=Cause.ENGINE_FAULT, now=timezone.now())


@pytest.mark.parametrize("keep_out", [_storage_away, _node_avoided])
def test_it_keeps_its_gpu_and_gets_it_back(world: World, job: Job, keep_out: Callable[[], None]) -> None:
    keep_out()
    world.settle()
    assert JobAttempt.objects.get(job=job).end_reason == ""
    assert Claim.objects.get().claimant == job
    assert job_unpark(job=job, actor="alice", now=timezone.now())
    world.settle()
    assert Parking.objects.get().state == ParkState.HELD
    assert JobAttempt.objects.get(job=job).end_reason == ""
