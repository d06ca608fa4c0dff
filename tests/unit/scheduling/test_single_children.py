"""Cells of one part: nodes of one GPU, racks of one node. They are cells of their own level all the same."""

from dataclasses import replace
from typing import Any

import pytest

from scheduling import Cluster, Engine, Role, Start
from scheduling.config.reading import read
from tests.hived.binding import Bindings
from tests.unit.scheduling.builders import job, role


def cluster(racks: int, nodes: int, gpus: int, **quotas: dict[str, int]) -> Cluster:
    types = {
        "RACK": {"childCellType": "NODE", "childCellNumber": nodes},
        "NODE": {"childCellType": "GPU", "childCellNumber": gpus, "isNodeLevel": True},
    }
    names = [[f"n{rack}{number}" for number in range(nodes)] for rack in range(racks)]
    cells = [{"cellType": "RACK", "cellChildren": [{"cellAddress": name} for name in some]} for some in names]
    lines: dict[str, Any] = {
        vc: {"virtualCells": [{"cellType": path, "cellNumber": count} for path, count in cells.items()]}
        for vc, cells in quotas.items()
    }
    return read({"physicalCluster": {"cellTypes": types, "physicalCells": cells}, "virtualClusters": lines})


def of(gpus: int, count: int = 1) -> Role:
    return role(count=count, gpus=gpus, cpu=0, memory=0, sku="GPU")


@pytest.mark.parametrize("gpus", [1, 4])
def test_a_rack_of_one_node_holds_its_teams_job(gpus: int) -> None:
    engine = Engine(cluster(2, 1, gpus, vision={"RACK": 1}, speech={"RACK.NODE": 1}))
    for name, vc in (("first", "vision"), ("second", "speech")):
        engine.submit(job(name, of(gpus), vc=vc))
    plan = engine.advance(0)
    assert sorted((start.job.id, start.placements[0].node) for start in plan.starts) == [
        ("first", "n00"),
        ("second", "n10"),
    ]


def test_a_node_of_one_gpu_has_one_address_in_a_quota() -> None:
    engine = Engine(cluster(2, 2, 1, vision={"RACK.NODE": 2}, speech={"RACK.NODE.GPU": 2}))
    for name, vc in (("node", "vision"), ("gpu", "speech")):
        engine.submit(job(name, of(1), vc=vc))
    engine.advance(0)
    bindings = Bindings.of(engine.snapshot())
    assert bindings.broken == []
    held = {use.virtual_cell: (cell, at) for cell, bound in bindings.bound.items() for at, use in bound.uses.items()}
    assert {address: bindings.grid.address(*one) for address, one in held.items()} == {one: one for one in held}


def test_idle_gpus_beyond_a_rack_that_is_owed_are_found_before_anybody_is_ended() -> None:
    """The first idle GPU splits the rack on which others are on loan; the whole gang fits the other rack."""
    engine = Engine(cluster(2, 4, 1, vision={"RACK": 1}, speech={"RACK.NODE.GPU": 4}))
    engine.submit(job("lent", of(1, 3), vc="vision", priority=-1))
    (lent,) = engine.advance(0).starts
    assert {one.node[:2] for one in lent.placements} == {"n0"}
    answer = engine.decide(job("gang", of(1, 4), vc="speech"), 1)
    assert isinstance(answer, Start)
    assert {one.node[:2] for one in answer.placements} == {"n1"}


def test_jobs_of_a_team_that_is_gone_are_on_loan_and_wait_with_that_reason() -> None:
    described = cluster(1, 2, 2, vision={"RACK.NODE": 1}, speech={"RACK.NODE": 1})
    engine = Engine(described)
    for name, priority in (("runs", 10), ("lent", -1), ("waits", 10)):
        engine.submit(job(name, of(2), priority=priority))
    engine.advance(0)
    engine.reconfigure(replace(described, virtual_clusters=described.virtual_clusters[1:]))
    plan = engine.plan(1)
    assert [one.job for one in plan.demotions] == ["runs"]
    assert [one.reason.sentence for one in plan.waits] == ["there is no virtual cluster vision"]
    engine.submit(job("owner", of(2), vc="speech"))
    assert len(engine.advance(2).preemptions) == 1
    assert Engine.restore(engine.snapshot()).plan(3).preemptions == ()
