"""Quota that would have to sit on bad hardware is shown to its owners."""

from __future__ import annotations

import pytest
from django.utils import timezone

from portal.accounts.models import ClusterRole
from portal.hardware.models import CellType, Gpu, Node
from portal.scheduler.doomed import doomed_find
from portal.teams.services.quotas import quota_set
from portal.teams.services.teams import member_set
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(world: World) -> World:
    """Vision owns two whole nodes of 4 GPUs."""
    for name in ("gpu01", "gpu02"):
        world.node(name, gpus=4)
    for name, count in (("A100", 0), ("A100-node4", 2)):
        quota_set(vc=world.vc, cell_type=CellType.objects.get(name=name), count=count, now=world.now)
    return world


def told(world: World) -> list[tuple[str, int]]:
    doomed_find(now=timezone.now())
    return [(one["cell_type"], one["cells"]) for one in Api(world.user).get("virtual-clusters/vision")["doomed"]]


def test_all_is_well_while_every_cell_can_be_had(world: World) -> None:
    assert told(world) == []
    assert "cannot be had now" not in Browser(world.user).get("/virtual-clusters/vision").text


def test_a_bad_gpu_dooms_the_node_that_is_owed(world: World) -> None:
    Gpu.objects.filter(node__name="gpu01", index=0).update(fault="fell off the bus")
    assert told(world) == [("A100-node4", 1)]
    page = Browser(world.user).get("/virtual-clusters/vision")
    assert "Quota at risk. 1 cell of type A100-node4 cannot be had now" in page.text
    Gpu.objects.update(fault="")
    assert told(world) == []


def test_a_lost_node_dooms_its_cells_and_a_cordoned_one_none(world: World) -> None:
    Node.objects.filter(name="gpu01").update(intent="cordoned")
    assert told(world) == []
    Node.objects.filter(name="gpu01").update(health="lost")
    assert told(world) == [("A100-node4", 1)]


def test_what_another_cell_can_stand_in_for_is_not_doomed(world: World) -> None:
    quota_set(vc=world.vc, cell_type=CellType.objects.get(name="A100-node4"), count=1, now=world.now)
    Gpu.objects.filter(node__name="gpu01", index=0).update(fault="fell off the bus")
    assert told(world) == []


def test_quota_behind_closed_nodes_is_an_information_and_dooms_nothing(world: World) -> None:
    lead, root = person("lead"), person("root", ClusterRole.ADMIN)
    member_set(vc=world.vc, user=lead, role="lead", now=world.now)
    Node.objects.filter(name="gpu01").update(intent="draining")
    assert told(world) == []
    for reader in (lead, root):
        (row,) = [one for one in Api(reader).get("alerts") if one["kind"] == "vc"]
        assert (row["code"], row["severity"], row["name"]) == ("quota_closed", "info", "vision")
        assert "1 x A100-node4 of it could not be had now" in row["message"]
    Gpu.objects.filter(node__name="gpu02", index=0).update(fault="fell off the bus")
    assert told(world) == [("A100-node4", 1)]
    codes = [one["code"] for one in Api(lead).get("alerts") if one["kind"] == "vc"]
    assert sorted(codes) == ["quota_at_risk", "quota_closed"], "each for its own cell"
    Node.objects.update(intent="open")
    told(world)
    assert [one["code"] for one in Api(lead).get("alerts") if one["kind"] == "vc"] == ["quota_at_risk"]
