"""Nodes of one GPU in racks of one, live: their cells are used as they are owned; an equal job waits."""

from __future__ import annotations

from typing import Any

import pytest

from portal.cluster.services.configuration import configuration_import, configuration_read
from portal.jobs.models import Allocation, Preemption
from portal.jobs.states import JobState
from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db


def configuration(team: str) -> dict[str, Any]:
    types = {
        "rack": {"childCellType": "box", "childCellNumber": 1},
        "box": {"childCellType": "A100", "childCellNumber": 1, "isNodeLevel": True},
    }
    cells = [{"cellType": "rack", "cellChildren": [{"cellAddress": name}]} for name in ("gpu01", "gpu02")]
    quotas = {
        team: {"virtualCells": [{"cellType": "rack", "cellNumber": 1}]},
        "other": {"virtualCells": [{"cellType": "rack.box", "cellNumber": 1}]},
    }
    return {"physicalCluster": {"cellTypes": types, "physicalCells": cells}, "virtualClusters": quotas}


def test_a_job_has_its_rack_of_one_node_and_an_equal_one_waits_for_its_end() -> None:
    world = World()
    for name in ("gpu01", "gpu02"):
        world.node(name, gpus=1)
    configuration_import(found=configuration_read(configuration(world.vc.name)), now=world.now, actor="root")
    first, second = world.submit(), world.submit()
    world.settle()
    for job in (first, second):
        job.refresh_from_db()
    assert (first.state, second.state) == (JobState.RUNNING, JobState.WAITING)
    assert second.waiting_code == "quota"
    assert [row.virtual_cell for row in Allocation.objects.all()] == [f"{world.vc.name}/rack/0/0"]
    assert not Preemption.objects.exists()
