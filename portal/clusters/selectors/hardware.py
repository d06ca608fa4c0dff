"""Nodes and their GPUs as leaf cells, read each second by the scheduler: plain columns, and nothing made anew that did
not change."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from django.db.models import Q, TextField
from django.db.models.functions import Cast

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
    sku_id: int | None
    cpu_milli: int
    memory_mb: int
    shape_id: int | None
    slots: tuple[int, ...]
    upper_id: int | None
    chain: str
    placement_version: int

    @property
    def description(self) -> tuple[object, ...]:
        """All of it but the version, which changes with every decision."""
        return self[:-1]


def node_rows() -> list[NodeRow]:
    """All nodes by name; one query."""
    columns = [Cast("slots", TextField()) if name == "slots" else name for name in NodeRow._fields[1:]]
    rows = Node.objects.order_by("name").values_list("id", *columns)
    slots = NodeRow._fields.index("slots")
    return [NodeRow._make((*row[:slots], _slots(row[slots]), *row[slots + 1 :])) for row in rows]


@lru_cache(maxsize=NODES_KEPT)
def _slots(text: str) -> tuple[int, ...]:
    """Equal nodes have equal lists."""
    return tuple(json.loads(text))


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
        return _leaves(node.name, node.slots, leaf_type, out)


class _GpuRows(NamedTuple):
    """What leaves are made from: the nodes' names, and (id, node, slot) of GPUs that are well, that are not, and that
    are given up."""

    names: dict[int, str]
    plain: list[tuple[int, int, int | None]]
    others: list[tuple[int, int, int | None]]
    given_up: list[tuple[int, int, int | None]]


_last: list[tuple[_GpuRows, Leaves]] = []


def leaves_read(nodes: Iterable[NodeRow], given_up: frozenset[int]) -> Leaves:
    """Three queries, whatever the number of GPUs; those of the last reading where the rows are the same."""
    placed = Gpu.objects.filter(slot__isnull=False).values_list("id", "node_id", "slot")
    rows = _GpuRows(
        names={node.pk: node.name for node in nodes},
        plain=list(placed.filter(present=True, fault="").order_by()),
        others=list(placed.filter(Q(present=False) | ~Q(fault="")).order_by("-present", "-id")),
        given_up=list(placed.filter(pk__in=given_up).order_by()),
    )
    for before, leaves in list(_last):
        if before == rows:
            return leaves
    found = _leaves_of(rows)
    _last[:] = [(rows, found)]
    return found


def _leaves_of(rows: _GpuRows) -> Leaves:
    found = Leaves()
    for gpu, node, slot in sorted(rows.plain, reverse=True):
        _enter(found, gpu, f"{rows.names[node]}/{slot}")
        found.well[node].add(slot or 0)
    for gpu, node, slot in rows.others:
        leaf = f"{rows.names[node]}/{slot}"
        _enter(found, gpu, leaf)
        if found.gpus[leaf] == gpu:
            found.well[node].discard(slot or 0)
    for _, node, slot in rows.given_up:
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
