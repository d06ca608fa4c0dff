"""Nodes and their GPUs as leaf cells, read each second by the scheduler: plain columns, and nothing made anew that did
not change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from django.db.models import Q

import scheduling
from portal.clusters.models import CellType, Gpu, Node

NODES_KEPT = 16_384
"""Nodes whose leaves are kept from one reading to the next."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """What tasks still hold that were given up (lost with their node, unkillable): GPUs by row id, and by a node's id
    CPU in thousandths and memory in MB. The engine does not count with it."""

    gpus: frozenset[int] = frozenset()
    amounts: Mapping[int, tuple[int, int]] = field(default_factory=dict)


class NodeRow(NamedTuple):
    """What the scheduler wants of a node's row."""

    pk: int
    name: str
    intent: str
    health: str
    placement_version: int
    sku_id: int | None
    cpu_milli: int
    memory_mb: int
    shape_id: int | None
    slots: list[int]
    upper_id: int | None
    chain: str


def node_rows() -> list[NodeRow]:
    """All nodes by name; one query."""
    rows = Node.objects.order_by("name").values_list("id", *NodeRow._fields[1:])
    return [NodeRow(*row) for row in rows]


@dataclass(slots=True)
class Leaves:
    """The leaf cells of the nodes. A slot whose GPU is gone, or has never been reported, is out of service; of two
    GPUs that had one slot the present one counts."""

    ids: dict[int, str] = field(default_factory=dict)  # GPU row id -> leaf id
    gpus: dict[str, int] = field(default_factory=dict)  # leaf id -> row id of the GPU that is there
    well: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))  # node's id -> slots in service

    def of(self, node: NodeRow, leaf_type: str) -> tuple[scheduling.Leaf, ...]:
        """Those of one node, in the order of its tree."""
        well = self.well.get(node.pk, set())
        out = frozenset() if len(well) == len(node.slots) else frozenset(node.slots) - well
        return _leaves(node.name, tuple(node.slots), leaf_type, out)


def leaves_read(nodes: Iterable[NodeRow], given_up: frozenset[int]) -> Leaves:
    """Two queries, whatever the number of GPUs."""
    names = {node.pk: node.name for node in nodes}
    found = Leaves()
    placed = Gpu.objects.filter(slot__isnull=False).order_by("-present", "-id")
    plain = placed.filter(present=True, fault="").values_list("id", "node_id", "slot")
    others = placed.filter(Q(present=False) | ~Q(fault="")).values_list("id", "node_id", "slot")
    for gpu, node, slot in plain:
        _enter(found, gpu, f"{names[node]}/{slot}")
        found.well[node].add(slot or 0)
    for gpu, node, slot in others:
        leaf = f"{names[node]}/{slot}"
        _enter(found, gpu, leaf)
        if found.gpus[leaf] == gpu:
            found.well[node].discard(slot or 0)
    for node, slot in placed.filter(pk__in=given_up).values_list("node_id", "slot"):
        found.well[node].discard(slot or 0)
    return found


def _enter(found: Leaves, gpu: int, leaf: str) -> None:
    found.ids[gpu] = leaf
    found.gpus.setdefault(leaf, gpu)


@lru_cache(maxsize=NODES_KEPT)
def _leaves(node: str, slots: tuple[int, ...], leaf_type: str, out: frozenset[int]) -> tuple[scheduling.Leaf, ...]:
    return tuple(scheduling.Leaf(f"{node}/{slot}", node, slot, leaf_type, slot not in out) for slot in slots)


def leaf_names(types: Mapping[int, CellType]) -> dict[int, str]:
    """The name of the leaf type that a cell of each type is made of, by the type's id."""

    def leaf(key: int) -> str:
        child = types[key].child_id
        return types[key].name if child is None else leaf(child)

    return {key: leaf(key) for key in types}
