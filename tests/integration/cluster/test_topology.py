"""Cells from what nodes report: their types, their order, racks, and what stays when a GPU goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from portal.cluster.services.topology import topology_take
from portal.common.errors import Conflict
from portal.hardware.models import CellType, Gpu, Node, NodeEvent, UpperCell
from portal.hardware.topology import GpuSite, levels_of, shape_of
from portal.teams.selectors.engine_cluster import cluster_read
from portal.teams.services.quotas import quota_set
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World

EIGHT = range(8)

SHAPES: dict[str, tuple[list[GpuSite], tuple[int, ...], tuple[int, ...]]] = {
    "nothing known": ([GpuSite(i) for i in EIGHT], (8, 1), tuple(EIGHT)),
    "one GPU": ([GpuSite(0, 0, 0, 0)], (1, 1), (0,)),
    "one switch over all is no level": ([GpuSite(i, nvlink_group=0) for i in EIGHT], (8, 1), tuple(EIGHT)),
    "pairs by NVLink in quads by NUMA": (
        [GpuSite(i, nvlink_group=i // 2, numa=i // 4) for i in EIGHT], (8, 4, 2, 1), tuple(EIGHT),
    ),
    "quads whose members are apart stand together": (
        [GpuSite(i, numa=i % 2) for i in EIGHT], (8, 4, 1), (0, 2, 4, 6, 1, 3, 5, 7),
    ),
    "equal groups count once": (
        [GpuSite(i, nvlink_group=i // 4, pcie_group=i // 4, numa=i // 4) for i in EIGHT], (8, 4, 1), tuple(EIGHT),
    ),
    "NVLink goes before NUMA where they cut across": (
        [GpuSite(i, nvlink_group=i % 2, numa=i // 4) for i in EIGHT], (8, 4, 1), (0, 2, 4, 6, 1, 3, 5, 7),
    ),
    "groups of different sizes are none": (
        [GpuSite(i, nvlink_group=min(i // 2, 2)) for i in EIGHT], (8, 1), tuple(EIGHT),
    ),
    "a GPU of which nothing is known": (
        [GpuSite(i, numa=None if i == 3 else i // 4) for i in EIGHT], (8, 1), tuple(EIGHT),
    ),
    "indices need not begin at 0": ([GpuSite(i, numa=i // 4) for i in (9, 8, 5, 4)], (4, 2, 1), (4, 5, 8, 9)),
}  # fmt: skip


@pytest.mark.parametrize("case", SHAPES)
def test_regular_groups_that_lie_in_each_other_are_the_levels_of_a_node(case: str) -> None:
    sites, sizes, slots = SHAPES[case]
    shape = shape_of(sites)
    assert (shape.sizes, shape.slots) == (sizes, slots)


def test_levels_are_named_by_the_gpus_in_them() -> None:
    levels = [(level.name, level.child_count, level.node_level) for level in levels_of("A100", (12, 6, 2, 1))]
    assert levels == [("A100-pair", 2, False), ("A100-group6", 3, False), ("A100-node12", 2, True)]


@pytest.fixture
def world(db: None) -> World:
    return World()


def grouped(world: World, name: str, gpus: int = 8, *, rack: str = "", **groups: int) -> ScriptedNode:
    """A node whose GPUs are in groups of so many: ``numa=4`` puts 0 to 3 into one and 4 to 7 into another."""
    node = world.nodes[name] = ScriptedNode(name, gpus=gpus)
    infos = tuple(replace(info, **_groups(info.index, groups)) for info in node.inventory.gpus)
    node.inventory = replace(node.inventory, gpus=infos, rack=rack)
    assert node.report()
    return node


def _groups(index: int, sizes: dict[str, int]) -> dict[str, Any]:
    return {name: index // size for name, size in sizes.items()}


def types() -> dict[str, tuple[str, int]]:
    rows = CellType.objects.filter(child__isnull=False).select_related("child")
    return {row.name: (row.child.name, row.child_count) for row in rows if row.child}


def leaves(name: str) -> list[tuple[int, bool]]:
    (node,) = [node for node in cluster_read().cluster.nodes if node.id == name]
    return [(leaf.index, leaf.healthy) for leaf in node.leaves]


def test_a_nodes_first_report_makes_its_cell_types(world: World) -> None:
    grouped(world, "gpu01", nvlink_group=2, numa=4)
    assert types() == {"A100-pair": ("A100", 2), "A100-quad": ("A100-pair", 2), "A100-node8": ("A100-quad", 2)}
    (node,) = cluster_read().cluster.nodes
    assert (node.shape, node.sku, len(node.leaves)) == ("A100-node8", "A100", 8)


def test_equal_nodes_share_their_types_and_other_structures_of_one_size_get_another_name(world: World) -> None:
    grouped(world, "gpu01", numa=4)
    grouped(world, "gpu02", numa=4)
    grouped(world, "gpu03")
    assert {node.name: node.shape.name for node in Node.objects.all() if node.shape} == {
        "gpu01": "A100-node8", "gpu02": "A100-node8", "gpu03": "A100-node8-2",
    }  # fmt: skip


def lose(node: ScriptedNode, index: int) -> None:
    """A GPU falls off the bus; those behind it are counted anew."""
    rest = [info for info in node.inventory.gpus if info.index != index]
    told: Sequence[Any] = [replace(info, index=place) for place, info in enumerate(rest)]
    node.inventory = replace(node.inventory, gpus=tuple(told))
    assert node.report()


def test_a_gpu_that_falls_off_the_bus_is_a_matter_of_health_and_the_others_keep_their_places(world: World) -> None:
    node = grouped(world, "gpu01", gpus=4, numa=2)
    before = Node.objects.get().shape
    lose(node, 1)
    assert leaves("gpu01") == [(0, True), (1, False), (2, True), (3, True)]
    assert Node.objects.get().shape == before
    assert Gpu.objects.get(uuid="GPU-gpu01-3").slot == 3


def test_a_new_gpu_takes_the_place_of_the_one_that_went(world: World) -> None:
    node = grouped(world, "gpu01", gpus=4)
    lose(node, 1)
    spare = replace(node.inventory.gpus[0], uuid="GPU-spare", index=3)
    node.inventory = replace(node.inventory, gpus=(*node.inventory.gpus, spare))
    node.report()
    assert Gpu.objects.get(uuid="GPU-spare").slot == 1
    assert leaves("gpu01") == [(0, True), (1, True), (2, True), (3, True)]


def test_two_new_gpus_of_one_report_take_a_place_each(world: World) -> None:
    node = grouped(world, "gpu01", gpus=4)
    lose(node, 0)
    lose(node, 0)
    last = node.inventory.gpus[-1]
    spares = (replace(last, uuid="GPU-one", index=2), replace(last, uuid="GPU-two", index=3))
    node.inventory = replace(node.inventory, gpus=(*node.inventory.gpus, *spares))
    assert node.report()
    rows = Gpu.objects.filter(present=True).order_by("index").values_list("uuid", "slot")
    assert list(rows) == [("GPU-gpu01-2", 2), ("GPU-gpu01-3", 3), ("GPU-one", 0), ("GPU-two", 1)]


@pytest.mark.parametrize("uuid", ["GPU-gpu01-1", "GPU-new"])
def test_a_gpu_that_comes_back_or_is_replaced_moves_the_others_back(world: World, uuid: str) -> None:
    node = grouped(world, "gpu01", gpus=4)
    full = node.inventory.gpus
    lose(node, 1)
    whole = (full[0], replace(full[1], uuid=uuid), *full[2:])
    node.inventory = replace(node.inventory, gpus=whole)
    assert node.report()
    rows = Gpu.objects.filter(present=True).order_by("slot").values_list("uuid", "index", "slot")
    assert list(rows) == [(info.uuid, place, place) for place, info in enumerate(whole)]
    told = NodeEvent.objects.filter(code__in=["gpu_changed", "gpu_gone"])
    assert not told.filter(data__index=2).exists(), "to be counted otherwise is nothing that happened"


def test_cards_may_change_their_numbers_among_themselves(world: World) -> None:
    node = grouped(world, "gpu01", gpus=3)
    one, two, three = node.inventory.gpus
    told = (replace(two, index=0), replace(three, index=1), replace(one, index=2))
    node.inventory = replace(node.inventory, gpus=told)
    assert node.report()
    rows = Gpu.objects.filter(present=True).order_by("index").values_list("uuid", "slot")
    assert list(rows) == [(two.uuid, 1), (three.uuid, 2), (one.uuid, 0)]
    assert not NodeEvent.objects.filter(code="gpu_changed").exists()


def test_a_lost_card_beside_one_that_has_its_number_now_gets_a_free_one(world: World) -> None:
    node = grouped(world, "gpu01", gpus=3)
    one, two, three = node.inventory.gpus
    lost = replace(two, healthy=False, fault="the GPU is lost")
    node.inventory = replace(node.inventory, gpus=(one, lost, replace(three, index=1)))
    assert node.report()
    rows = Gpu.objects.filter(present=True).order_by("index").values_list("uuid", "slot")
    assert list(rows) == [(one.uuid, 0), (three.uuid, 2), (two.uuid, 1)]
    assert leaves("gpu01") == [(0, True), (1, False), (2, True)]


def test_a_node_that_tells_what_cannot_be_is_taken_in_as_far_as_it_can(world: World) -> None:
    node = ScriptedNode("gpu01", gpus=2)
    first, second = node.inventory.gpus
    odd = replace(second, index=0, memory_mb=-1, model="NVIDIA A100 " * 30)
    node.inventory = replace(
        node.inventory, gpus=(first, odd, odd), cpu_milli=-1, memory_mb=1 << 60, rack="r" * 99, address="a" * 99,
        interface="i" * 99, runtime="d" * 99,
    )  # fmt: skip
    assert node.report()
    assert node.report(), "and again"
    assert list(Gpu.objects.filter(present=True).order_by("index").values_list("index", flat=True)) == [0, 1]
    assert cluster_read().cluster.nodes


def test_a_gpu_too_many_takes_no_tasks_until_an_administrator_takes_the_topology_anew(world: World) -> None:
    node = grouped(world, "gpu01", gpus=2)
    more = replace(node.inventory.gpus[0], uuid="GPU-more", index=2)
    node.inventory = replace(node.inventory, gpus=(*node.inventory.gpus, more))
    node.report()
    node.accept()
    assert not Gpu.objects.get(uuid="GPU-more").usable
    assert len(leaves("gpu01")) == 2
    topology_take(node=Node.objects.get(), now=world.now, actor="root")
    assert Gpu.objects.get(uuid="GPU-more").usable
    assert leaves("gpu01") == [(0, True), (1, True), (2, True)]
    assert not CellType.objects.filter(name="A100-node2").exists(), "nothing is of that type any more"


def test_a_gpu_that_is_sick_and_gets_its_place_only_now_stays_fenced_off(world: World) -> None:
    node = grouped(world, "gpu01", gpus=2)
    more = replace(node.inventory.gpus[0], uuid="GPU-more", index=2)
    sick = replace(more, healthy=False, fault="Xid 79: it has fallen off the bus")
    for card in (more, sick):
        node.inventory = replace(node.inventory, gpus=(*node.inventory.gpus[:2], card))
        node.report()
        if card is more:
            node.accept()
    assert "no place left" in Gpu.objects.get(uuid="GPU-more").fault
    topology_take(node=Node.objects.get(), now=world.now, actor="root")
    assert Gpu.objects.get(uuid="GPU-more").fault == "the node says: Xid 79: it has fallen off the bus"


def test_of_a_node_with_two_models_the_greater_part_is_used_and_the_others_say_why_not(world: World) -> None:
    node = world.nodes["gpu01"] = ScriptedNode("gpu01", gpus=3)
    other = replace(node.inventory.gpus[0], model="NVIDIA T4")
    node.inventory = replace(node.inventory, gpus=(other, *node.inventory.gpus[1:]))
    node.report()
    assert leaves("gpu01") == [(1, True), (2, True)]
    assert "its node has A100" in Gpu.objects.get(model="NVIDIA T4").fault
    quota_set(vc=world.vc, cell_type=CellType.objects.get(name="A100"), count=2, now=world.now)
    job = world.submit(gpu=2)
    world.settle()
    job.refresh_from_db()
    assert job.state == "running", "the scheduler goes on"


def test_a_topology_that_a_quota_is_made_of_is_kept(world: World) -> None:
    node = grouped(world, "gpu01", gpus=4, numa=2)
    quota_set(vc=world.vc, cell_type=CellType.objects.get(name="A100-pair"), count=2, now=world.now)
    lose(node, 3)
    with pytest.raises(Conflict, match="the quotas need 2 A100-pair, 0 are there"):
        topology_take(node=Node.objects.get(), now=world.now, actor="root")
    assert len(leaves("gpu01")) == 4


def test_a_gpu_in_use_keeps_its_place(world: World) -> None:
    node = world.node("gpu01", gpus=4)
    world.submit(gpu=4)
    world.settle()
    lose(node, 0)
    with pytest.raises(Conflict, match="is in use"):
        topology_take(node=Node.objects.get(), now=world.now, actor="root")


# ---------------------------------------------------------------- racks


def rack() -> tuple[str, tuple[str, ...]] | None:
    cells = cluster_read().cluster.upper_cells
    return (cells[0].cell_type, cells[0].children) if cells else None


def test_alike_nodes_with_one_label_are_a_rack_that_grows(world: World) -> None:
    grouped(world, "gpu01", rack="r1")
    assert rack() is None
    grouped(world, "gpu02", rack="r1")
    assert rack() == ("A100-rack2", ("gpu01", "gpu02"))
    grouped(world, "gpu03", rack="r1")
    assert rack() == ("A100-rack3", ("gpu01", "gpu02", "gpu03"))


def test_nodes_that_are_not_alike_are_no_rack(world: World) -> None:
    grouped(world, "gpu01", rack="r1")
    grouped(world, "gpu02", rack="r1")
    grouped(world, "gpu03", gpus=4, rack="r1")
    assert rack() is None
    assert not UpperCell.objects.exists()


def test_a_rack_that_a_quota_is_made_of_stays_as_it_is(world: World) -> None:
    grouped(world, "gpu01", rack="r1")
    grouped(world, "gpu02", rack="r1")
    quota_set(vc=world.vc, cell_type=CellType.objects.get(name="A100-rack2"), count=1, now=world.now)
    grouped(world, "gpu03", rack="r1")
    assert rack() == ("A100-rack2", ("gpu01", "gpu02"))
    assert "gpu03 is not part of it" in Node.objects.get(name="gpu03").events.get(code="rack_kept").message
