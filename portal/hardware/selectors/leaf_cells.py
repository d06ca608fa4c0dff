"""Nodes and their GPUs as leaf cells, read each second by the scheduler: plain columns, and nothing made anew that did
not change."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from django.db.models import BooleanField, Case, TextField, When
from django.db.models.fields.json import KeyTransform
from django.db.models.functions import Cast

import scheduling
from portal.common.row_versions import KeptRows
from portal.hardware.models import CellType, Gpu, Node, intent_now

NODES_KEPT = 16_384
"""Nodes whose leaves are kept from one reading to the next."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """What tasks still hold that were given up (lost with their node, unkillable): GPUs by row id, and by a node's id
    CPU in thousandths and memory in MB. The engine does not count with it."""

    gpus: frozenset[int] = frozenset()
    amounts: Mapping[int, tuple[int, int]] = field(default_factory=dict)


class NodeRow(NamedTuple):
    """What the scheduler wants of a node's row; ``intent`` is ``intent_now``, ``accepted_roots`` (the folders for
    storages, JSON) None of a pending one, and so is ``cpu_tasks`` unless it was shut beforehand; ``storages`` and
    ``storage_faults`` are what it tells of them, JSON."""

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
    cpu_tasks: bool | None
    accepted_roots: str | None
    ties: str
    storages: str
    storage_faults: str
    placement_version: int

    @property
    def description(self) -> tuple[object, ...]:
        """All of it but the version, which changes with every decision."""
        return self[:-1]


_MADE: Mapping[str, Any] = {
    "slots": Cast("slots", TextField()),
    "intent": intent_now(),
    "cpu_tasks": Case(
        When(accepted__isnull=True, cpu_tasks=True, then=None), default="cpu_tasks", output_field=BooleanField()
    ),
    "accepted_roots": Cast(KeyTransform("storages", "accepted"), TextField()),
    **{name: Cast(name, TextField()) for name in ("ties", "storages", "storage_faults")},
}
_node_columns = [_MADE.get(name, name) for name in NodeRow._fields[1:]]
_nodes = KeptRows(Node.objects.all, ["id", *_node_columns], key=int)
_made: tuple[dict[int, tuple[Any, ...]], list[NodeRow]] = {}, []
"""The rows as the database gave them last, and what was made of them."""


def node_rows() -> list[NodeRow]:
    """All nodes by name; the same list where none has changed. One query, and one more where some have."""
    global _made
    last, found = _made, _nodes.read()
    if found is last[0]:
        return last[1]
    made = sorted(map(_node_row, found.values()), key=attrgetter("name"))
    _made = found, made
    return made


def _node_row(row: tuple[Any, ...]) -> NodeRow:
    slots = NodeRow._fields.index("slots")
    return NodeRow._make((*row[:slots], slots_of(row[slots]), *row[slots + 1 :]))


@lru_cache(maxsize=NODES_KEPT)
def slots_of(text: str) -> tuple[int, ...]:
    """The column of that name as its text; equal nodes have equal lists."""
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


class _GpuRow(NamedTuple):
    """A GPU that has a slot."""

    pk: int
    node_id: int
    slot: int
    present: bool
    fault: str


_gpus = KeptRows(lambda: Gpu.objects.filter(slot__isnull=False), ["id", *_GpuRow._fields[1:]], key=int)
_last: list[tuple[object, Leaves]] = []
"""What the last leaves were made from, and they."""


def leaves_read(nodes: Iterable[NodeRow], given_up: frozenset[int]) -> Leaves:
    """Those of the last reading where the rows are the same. One query, and one more where some have changed."""
    gpus, names = _gpus.read(), {node.pk: node.name for node in nodes}
    facts = gpus, names, given_up
    for before, leaves in list(_last):
        if before == facts:
            return leaves
    found = _leaves_of([_GpuRow._make(row) for row in gpus.values()], names, given_up)
    _last[:] = [(facts, found)]
    return found


def _leaves_of(gpus: Collection[_GpuRow], names: Mapping[int, str], given_up: frozenset[int]) -> Leaves:
    """Of several GPUs that had one slot one that is well counts, else one that is there, else the newest."""
    found = Leaves()
    for gpu in sorted(gpus, key=lambda gpu: (gpu.present and not gpu.fault, gpu.present, gpu.pk), reverse=True):
        leaf = f"{names[gpu.node_id]}/{gpu.slot}"
        found.ids[gpu.pk] = leaf
        found.gpus.setdefault(leaf, gpu.pk)
        if gpu.present and not gpu.fault:
            found.well[gpu.node_id].add(gpu.slot)
    for gpu in gpus:
        if gpu.pk in given_up:
            found.well[gpu.node_id].discard(gpu.slot)
    return found


@lru_cache(maxsize=NODES_KEPT)
def _leaves(node: str, slots: tuple[int, ...], leaf_type: str, out: frozenset[int]) -> tuple[scheduling.Leaf, ...]:
    return tuple(scheduling.Leaf(f"{node}/{slot}", node, slot, leaf_type, slot not in out) for slot in slots)


def leaf_names(types: Mapping[int, CellType]) -> dict[int, str]:
    """The name of the leaf type that a cell of each type is made of, by the type's id."""

    def leaf(key: int) -> str:
        child = types[key].child_id
        return types[key].name if child is None else leaf(child)

    return {key: leaf(key) for key in types}
