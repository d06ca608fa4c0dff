"""Nodes and their GPUs as leaf cells, read every second by the scheduler: plain columns, and only rows that changed."""

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

from portal.common.row_versions import KeptRows
from portal.hardware.models import CellType, Gpu, Node, intent_now


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Resources still held by tasks that were given up (lost with their node, unkillable): GPUs by row id; CPU in
    thousandths and memory in MB by node id. The engine does not count on them."""

    gpus: frozenset[int] = frozenset()
    amounts: Mapping[int, tuple[int, int]] = field(default_factory=dict)


NOTHING_GIVEN_UP = GivenUp()


class NodeRow(NamedTuple):
    """Columns of a node for the scheduler. ``intent`` is ``intent_now``; ``accepted_roots`` (storage folders, JSON) is
    None for a pending node, and so is ``cpu_tasks`` unless it was turned off beforehand; ``storages`` and
    ``storage_faults`` are as reported, JSON."""

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
        """All columns but the version, which changes with every decision."""
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
_NODE_COLUMNS = [_MADE.get(name, name) for name in NodeRow._fields[1:]]


def _node_row(row: tuple[Any, ...]) -> NodeRow:
    slots = NodeRow._fields.index("slots")
    return NodeRow._make((*row[:slots], slots_of(row[slots]), *row[slots + 1 :]))


@lru_cache(maxsize=1024)
def slots_of(text: str) -> tuple[int, ...]:
    """Parses the column ``slots``; equal nodes share one tuple."""
    return tuple(json.loads(text))


@dataclass(slots=True)
class Leaves:
    """Leaf cells of the nodes. A slot whose GPU is gone, or was never reported, is out of service; of two GPUs that had
    one slot the present one counts."""

    ids: dict[int, str] = field(default_factory=dict)  # GPU row id -> leaf id
    gpus: dict[str, int] = field(default_factory=dict)  # leaf id -> row id of the GPU that is there
    well: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))  # node's id -> slots in service

    def out(self, node: NodeRow) -> frozenset[int]:
        """Slots of the node that are out of service."""
        well = self.well.get(node.pk, set())
        return frozenset() if len(well) == len(node.slots) else frozenset(node.slots) - well


class _GpuRow(NamedTuple):
    """A GPU that has a slot."""

    pk: int
    node_id: int
    slot: int
    present: bool
    fault: str


class LeafCells:
    """Reads nodes and leaf cells, each in one query, and one more if some have changed since the last reading."""

    def __init__(self) -> None:
        self._nodes = KeptRows(Node.objects.all, ["id", *_NODE_COLUMNS], key=int, make=_node_row)
        gpus, columns = Gpu.objects.filter(slot__isnull=False), ["id", *_GpuRow._fields[1:]]
        self._gpus = KeptRows(gpus.all, columns, key=int, make=_GpuRow._make)
        self._last: tuple[object, Leaves] = None, Leaves()

    def nodes(self) -> list[NodeRow]:
        """All nodes by name."""
        return sorted(self._nodes.read().values(), key=attrgetter("name"))

    def leaves(self, nodes: Iterable[NodeRow], given_up: frozenset[int]) -> Leaves:
        """All leaves; the same object if the rows are the same."""
        gpus, last = self._gpus.read(), self._last
        names = {node.pk: node.name for node in nodes}
        if last[0] != (gpus, names, given_up):
            last = self._last = (gpus, names, given_up), _leaves_of(gpus.values(), names, given_up)
        return last[1]


def _leaves_of(gpus: Collection[_GpuRow], names: Mapping[int, str], given_up: frozenset[int]) -> Leaves:
    """Builds them. Of several GPUs that had one slot a usable one counts, else a present one, else the newest."""
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


def leaf_names(types: Mapping[int, CellType]) -> dict[int, str]:
    """Leaf type's name for each cell type, by the type's id."""

    def leaf(key: int) -> str:
        child = types[key].child_id
        return types[key].name if child is None else leaf(child)

    return {key: leaf(key) for key in types}
