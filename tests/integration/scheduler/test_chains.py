"""Chains come and go with servers: a quota line keeps its meaning, and none of it stops the scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from portal.accounts.models import ClusterRole
from portal.cluster.services.configuration import configuration_import, configuration_read
from portal.cluster.services.retiring import node_retire
from portal.hardware.models import CellType, Node
from portal.jobs.models import Allocation, Standing
from portal.teams.models import QuotaLine
from portal.teams.services.quotas import Wish, lines_resolve, quotas_set
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db

BOX: dict[str, Any] = {
    "physicalCluster": {
        "cellTypes": {"box": {"childCellType": "A100", "childCellNumber": 4, "isNodeLevel": True}},
        "physicalCells": [{"cellType": "box", "cellAddress": "gpu01"}],
    },
    "virtualClusters": {"vision": {"virtualCells": [{"cellType": "box", "cellNumber": 1}]}},
}


def take(world: World, document: dict[str, Any]) -> None:
    configuration_import(found=configuration_read(document), now=world.now, actor="root")


def give(world: World, count: int, chain: str = "") -> None:
    kind = Node.objects.order_by("-name")[0].shape
    assert kind is not None
    quotas_set(lines=lines_resolve([Wish("vision", kind.name, count, chain)]), now=world.now, actor="root")


def standings() -> list[tuple[str, str]]:
    rows = Allocation.objects.filter(released_at__isnull=True).order_by("leaf__node__name", "leaf__slot")
    return list(rows.values_list("leaf__node__name", "standing"))


@pytest.mark.parametrize("stored", ["as it is", "as before chains were stored"])
def test_a_server_of_the_same_structure_joins_one_that_a_configuration_describes(world: World, stored: str) -> None:
    world.nodes["gpu01"] = ScriptedNode("gpu01", gpus=4)
    assert world.nodes["gpu01"].report()
    take(world, BOX)
    job = world.submit(gpu=4)
    world.settle()
    if stored != "as it is":
        QuotaLine.objects.update(chain="")
    world.nodes["gpu02"] = ScriptedNode("gpu02", gpus=4)
    assert world.nodes["gpu02"].report()
    assert list(Node.objects.values_list("shape__name", "chain")) == [("box", "box"), ("box", "")]
    assert world.cycle().applied.well
    if stored == "as it is":
        assert standings() == [("gpu01", Standing.GUARANTEED)] * 4, "the quota is where it was"
    give(world, 0, "box")
    give(world, 1, "A100")
    assert list(QuotaLine.objects.values_list("chain", "count")) == [("", 1)]
    world.settle()
    second = world.submit(gpu=4)
    world.settle()
    job.refresh_from_db()
    second.refresh_from_db()
    assert {job.state, second.state} == {"running"}
    take(world, BOX)


@pytest.mark.parametrize("row", ["island", ""])
def test_a_line_whose_chain_is_the_only_one_left_is_still_one_line(world: World, row: str) -> None:
    for name in ("gpu01", "gpu02", "gpu03"):
        world.nodes[name] = ScriptedNode(name, gpus=4)
        assert world.nodes[name].report()
    Node.objects.exclude(name="gpu01").update(chain="island")
    give(world, 1, "island")
    node_retire(node=Node.objects.get(name="gpu01"), now=world.now, actor="root")
    world.nodes.pop("gpu01")
    QuotaLine.objects.update(chain=row)
    give(world, 2)
    assert list(QuotaLine.objects.values_list("chain", "count")) == [("island", 2)]
    for name in ("one", "two"):
        world.submit(name=name, gpu=4)
    assert world.cycle().applied.started == 2


def test_two_lines_of_one_meaning_are_added_together(world: World) -> None:
    for name in ("gpu01", "gpu02"):
        world.nodes[name] = ScriptedNode(name, gpus=4)
        assert world.nodes[name].report()
    Node.objects.update(chain="island")
    give(world, 1)
    line = QuotaLine.objects.get()
    QuotaLine.objects.create(vc=line.vc, cell_type=line.cell_type, chain="", count=1)
    for name in ("one", "two"):
        world.submit(name=name, gpu=4)
    assert world.cycle().applied.started == 2
    assert [held for _, held in standings()] == [Standing.GUARANTEED] * 8


def test_a_line_whose_chain_is_gone_can_be_set_by_the_page_and_the_api(world: World) -> None:
    for name in ("gpu01", "gpu02"):
        world.nodes[name] = ScriptedNode(name, gpus=4)
        assert world.nodes[name].report()
    Node.objects.filter(name="gpu02").update(chain="island")
    give(world, 1, "island")
    node_retire(node=Node.objects.get(name="gpu02"), now=world.now, actor="root")
    root = person("root", ClusterRole.ADMIN)
    kind = CellType.objects.get(child__isnull=False)
    assert f'name="cells-{kind.pk}-island"' in Browser(root).get("/virtual-clusters/vision/quota").html
    api = Api(root)
    wish = {"vc": "vision", "cell_type": kind.name, "chain": "island", "count": 0}
    answer = api.call("PATCH", "quotas", {"lines": [wish]})
    assert answer.status_code == 200, answer.content
    assert not QuotaLine.objects.exists()
