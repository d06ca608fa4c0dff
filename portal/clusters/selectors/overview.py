"""The whole cluster at a glance: each GPU with its place, its state and its holder."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from django.db.models import QuerySet

from portal.accounts.models import User
from portal.clusters.clocks import clock_fault
from portal.clusters.models import CellType, Gpu, Node, UpperCell
from portal.clusters.selectors.holders import Held, gpus_held
from portal.clusters.selectors.quotas import leaves_by_cell_type
from portal.clusters.selectors.visible import node_restrict
from portal.clusters.states import NodeHealth, NodeIntent
from portal.common.row_versions import KeptRows


class Place(StrEnum):
    """What is so of a GPU; the first that is true."""

    SICK = "sick"  # fenced off, gone, or its node is lost
    HELD = "held"  # by a job, inside its team's quota
    LENT = "lent"  # to a job beyond its team's quota
    OUT = "out"  # well and unheld, but its node takes no tasks
    FREE = "free"


class GpuFacts(NamedTuple):
    """What the map wants of a GPU's row."""

    pk: int
    node_id: int
    number: int
    slot: int | None
    uuid: str
    cell_type_id: int
    present: bool
    fault: str


class GpuSpot(NamedTuple):
    """A GPU on the map."""

    gpu: GpuFacts
    place: Place
    held: Held | None

    @property
    def fault(self) -> str:
        """What is wrong with the GPU itself."""
        return self.gpu.fault or ("" if self.gpu.present else "it is not reported any more")


class NodeFacts(NamedTuple):
    """What the map wants of a node's row."""

    pk: int
    name: str
    intent: str
    intent_reason: str
    health: str
    health_reason: str
    clock_skew_ms: int
    shape_id: int | None
    rack: str
    upper_id: int | None
    slots: list[int]

    @property
    def state(self) -> str:
        """Its health where that is not good, else what is wanted of it."""
        return self.intent if self.health == NodeHealth.HEALTHY else self.health

    @property
    def why(self) -> str:
        """Why it is so, as far as somebody said."""
        said = [self.intent_reason] if self.intent != NodeIntent.OPEN else []
        return " ".join(filter(None, [self.health_reason, *said, clock_fault(self.clock_skew_ms)]))


class NodeSpot(NamedTuple):
    """A node on the map with its GPUs in the order of its tree; ``section`` is the cell or rack around it."""

    node: NodeFacts
    section: str
    gpus: list[GpuSpot]


@dataclass(frozen=True)
class Overview:
    """All nodes, section by section. ``skus`` are the names of SKUs by the ids of their leaf cell types, ``groups`` the
    cells inside a node (name, GPUs; largest first) by the id of its shape."""

    nodes: list[NodeSpot]
    skus: Mapping[int, str]
    groups: Mapping[int, list[tuple[str, int]]]

    @cached_property
    def sums(self) -> dict[str, dict[Place, int]]:
        """GPUs by SKU and what is so of them; every SKU that has GPUs, by name."""
        found: dict[str, dict[Place, int]] = defaultdict(lambda: dict.fromkeys(Place, 0))
        for node in self.nodes:
            for spot in node.gpus:
                found[self.skus[spot.gpu.cell_type_id]][spot.place] += 1
        return dict(sorted(found.items()))

    @property
    def troubled(self) -> list[NodeSpot]:
        """Nodes that are lost, not heard of, kept closed, or have something wrong: the worst first."""
        bad = [(_trouble(one), one.node.name, one) for one in self.nodes]
        return [one for trouble, _, one in sorted(bad, key=lambda row: row[:2]) if trouble < len(_WORST)]


_WORST = (NodeHealth.LOST, NodeIntent.DRAINING, NodeIntent.CORDONED, NodeHealth.UNKNOWN)


def _trouble(one: NodeSpot) -> int:
    if one.node.state in _WORST:
        return _WORST.index(one.node.state)
    sick = one.node.why or any(spot.fault for spot in one.gpus)
    return 1 if sick else len(_WORST)


def overview(*, user: User) -> Overview:
    """What there is, as far as the user may see it; six queries for any number of nodes. Whom a holder's job may be
    shown to says ``job_sight``."""
    return _overview(node_restrict(user=user))


def overview_all() -> Overview:
    """The same of everything, for the portal itself."""
    return _overview(Node.objects.all())


def _overview(rows: QuerySet[Node]) -> Overview:
    types = {row.pk: row for row in CellType.objects.select_related("sku")}
    uppers = {row.pk: row for row in UpperCell.objects.all()}
    nodes = [NodeFacts(*row) for row in rows.order_by().values_list(*NodeFacts._fields)]
    held, gpus = gpus_held(), _by_node(_gpus.read().values())
    spots = [NodeSpot(node, _section(node, uppers), _spots(node, gpus[node.pk], held)) for node in nodes]
    spots.sort(key=lambda one: (one.section, one.node.name))
    return Overview(spots, {key: row.sku.name for key, row in types.items()}, _groups(types))


_COLUMNS = ["index" if name == "number" else name for name in GpuFacts._fields]
_gpus = KeptRows(Gpu.objects.all, _COLUMNS, key=int)


def _by_node(rows: Iterable[tuple[object, ...]]) -> Mapping[int, list[GpuFacts]]:
    found: dict[int, list[GpuFacts]] = defaultdict(list)
    for row in rows:
        gpu = GpuFacts._make(row)
        found[gpu.node_id].append(gpu)
    return found


def _spots(node: NodeFacts, gpus: Iterable[GpuFacts], held: Mapping[int, Held]) -> list[GpuSpot]:
    """Those that are there or held; those without a place in the tree come last."""
    order = {slot: place for place, slot in enumerate(node.slots)}
    there = [gpu for gpu in gpus if gpu.present or gpu.pk in held]
    there.sort(key=lambda gpu: (order.get(gpu.slot, len(order)) if gpu.slot is not None else len(order), gpu.number))
    return [GpuSpot(gpu, _place(node, gpu, held.get(gpu.pk)), held.get(gpu.pk)) for gpu in there]


def _place(node: NodeFacts, gpu: GpuFacts, held: Held | None) -> Place:
    if gpu.fault or not gpu.present or node.health == NodeHealth.LOST:
        return Place.SICK
    if held is not None:
        return Place.LENT if held.holder.standing == "borrowed" else Place.HELD
    is_open = node.intent == NodeIntent.OPEN and node.health == NodeHealth.HEALTHY and gpu.slot is not None
    return Place.FREE if is_open else Place.OUT


def _section(node: NodeFacts, uppers: Mapping[int, UpperCell]) -> str:
    """The cells above it, the topmost first, or else the rack's label."""
    names, key = [], node.upper_id
    while key is not None:
        names.append(uppers[key].label)
        key = uppers[key].parent_id
    return " / ".join(reversed(names)) or node.rack


def _groups(types: Mapping[int, CellType]) -> dict[int, list[tuple[str, int]]]:
    leaves, found = leaves_by_cell_type(dict(types)), {}
    for key, row in types.items():
        inside, child = [], row.child_id
        while child is not None and types[child].child_id is not None:
            if leaves[child] < leaves[key]:
                inside.append((types[child].name, leaves[child]))
            child = types[child].child_id
        found[key] = inside
    return found
