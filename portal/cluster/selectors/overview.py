"""The cluster map's data: each GPU with its position, state and holder."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

from django.db.models import F, QuerySet, TextField
from django.db.models.functions import Cast
from django.db.models.lookups import IsNull
from django.utils.translation import gettext

from portal.accounts.models import User
from portal.cluster.selectors.holders import Held, gpus_held
from portal.common.row_versions import KeptResult, RowsVersion
from portal.hardware.clocks import clock_fault
from portal.hardware.health_words import health_words
from portal.hardware.models import CellType, Gpu, Node, UpperCell, intent_now
from portal.hardware.outages import SHORT
from portal.hardware.selectors.leaf_cells import slots_of
from portal.hardware.states import NodeHealth, NodeIntent
from portal.teams.selectors.quotas import leaves_by_cell_type
from portal.teams.selectors.visible import node_restrict


class Place(StrEnum):
    """A GPU's state; the first that applies."""

    SICK = "sick"  # fenced off, gone, or its node is lost
    HELD = "held"  # by a job, inside its team's quota
    LENT = "lent"  # to a job beyond its team's quota
    OUT = "out"  # healthy and not held, but its node takes no tasks
    FREE = "free"


class GpuFacts(NamedTuple):
    """Columns of a GPU for the map."""

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
        """The fault of the GPU itself."""
        return health_words(self.gpu.fault) or ("" if self.gpu.present else gettext("it is not reported any more"))


class NodeFacts(NamedTuple):
    """Columns of a node for the map. ``intent`` is ``intent_now``; ``full``, ``out``, ``stuck`` (the cause) and
    ``pending`` are findings that close it; ``clock``: its clock's fault, recomputed with each report and yet rarely
    different."""

    pk: int
    name: str
    intent: str
    intent_reason: str
    health: str
    health_reason: str
    clock: str
    full: bool
    out: bool
    stuck: str
    pending: bool
    shape_id: int | None
    rack: str
    upper_id: int | None
    slots: tuple[int, ...]

    @property
    def state(self) -> str:
        """Its health unless that is good, else its intent."""
        return self.intent if self.health == NodeHealth.HEALTHY else self.health

    @property
    def why(self) -> str:
        """Reasons for its state, as far as known."""
        silent = self.health == NodeHealth.HEALTHY and self.health_reason
        shut = self.full or self.out or self.stuck or silent or self.pending
        said = [] if self.intent == NodeIntent.OPEN or shut else [self.intent_reason]
        closing = ("pending", self.pending), (self.stuck, self.stuck), ("full", self.full), ("out", self.out)
        found = [SHORT[name] for name, so in closing if so]
        return " ".join(filter(None, [health_words(self.health_reason), *said, *map(gettext, found), self.clock]))


class NodeSpot(NamedTuple):
    """A node on the map with its GPUs in tree order; ``section``: the cell or rack around it, ``places``: GPU counts by
    cell type id and state, ``sick``: whether it or one of them has a fault."""

    node: NodeFacts
    section: str
    gpus: list[GpuSpot]
    places: Mapping[tuple[int, Place], int]
    sick: bool


@dataclass(frozen=True)
class Overview:
    """All nodes, by section. ``skus``: SKU names by leaf cell type id, ``groups``: cells inside a node (name, GPUs;
    largest first) by the id of its shape."""

    nodes: list[NodeSpot]
    skus: Mapping[int, str]
    groups: Mapping[int, list[tuple[str, int]]]

    @cached_property
    def sums(self) -> dict[str, dict[Place, int]]:
        """GPUs by SKU and state; every SKU that has GPUs, by name."""
        found: dict[str, dict[Place, int]] = defaultdict(lambda: dict.fromkeys(Place, 0))
        for node in self.nodes:
            for (cell_type, place), count in node.places.items():
                found[self.skus[cell_type]][place] += count
        return dict(sorted(found.items()))

    @property
    def troubled(self) -> list[NodeSpot]:
        """Nodes that are lost, never heard of, closed, or have a fault: worst first."""
        bad = [(_trouble(one), one.node.name, one) for one in self.nodes]
        return [one for trouble, _, one in sorted(bad, key=lambda row: row[:2]) if trouble < len(_WORST)]


_WORST = (NodeHealth.LOST, NodeIntent.DRAINING, NodeIntent.CORDONED, NodeHealth.UNKNOWN)


def _trouble(one: NodeSpot) -> int:
    if one.node.state in _WORST:
        return _WORST.index(one.node.state)
    return 1 if one.sick else len(_WORST)


def overview(*, user: User) -> Overview:
    """The cluster as the user may see it; six queries for any number of nodes. ``job_sight`` says who may see a
    holder's job."""
    return _overview(node_restrict(user=user))


def overview_all() -> Overview:
    """The whole cluster, for the portal's own use."""
    return _overview(Node.objects.all())


def _overview(rows: QuerySet[Node]) -> Overview:
    types = {row.pk: row for row in CellType.objects.select_related("sku")}
    uppers = {row.pk: row for row in UpperCell.objects.all()}
    spots = _SPOTS.of([(node, _section(node, uppers)) for node in _nodes(rows)])
    spots.sort(key=lambda one: (one.section, one.node.name))
    return Overview(spots, {key: row.sku.name for key, row in types.items()}, _groups(types))


_MADE: Mapping[str, Any] = {
    "intent": intent_now(), "clock": "clock_skew_ms", "slots": Cast("slots", TextField()),
    "full": IsNull(F("full_since"), False), "out": IsNull(F("out_since"), False),
    "stuck": "stuck_cause", "pending": IsNull(F("accepted"), True),
}  # fmt: skip
_NODE_COLUMNS: Sequence[Any] = [_MADE.get(name, name) for name in NodeFacts._fields]
_CLOCK, _SLOTS = (NodeFacts._fields.index(name) for name in ("clock", "slots"))


def _nodes(rows: QuerySet[Node]) -> Iterator[NodeFacts]:
    for row in rows.order_by().values_list(*_NODE_COLUMNS):
        columns = list(row)
        columns[_CLOCK], columns[_SLOTS] = clock_fault(columns[_CLOCK]), slots_of(columns[_SLOTS])
        yield NodeFacts._make(columns)


_GPU_COLUMNS = ["index" if name == "number" else name for name in GpuFacts._fields]


def _gpus_find() -> Mapping[int, Sequence[GpuFacts]]:
    found: dict[int, list[GpuFacts]] = defaultdict(list)
    for row in Gpu.objects.order_by().values_list(*_GPU_COLUMNS):
        gpu = GpuFacts._make(row)
        found[gpu.node_id].append(gpu)
    return dict(found)


_GPUS = KeptResult(RowsVersion(Gpu.objects.all), _gpus_find)
"""By node."""


class _Made(NamedTuple):
    """A node's spot on the map, and its inputs besides the node and its section."""

    gpus: Sequence[GpuFacts]
    held: Sequence[Held | None]
    spot: NodeSpot


class _Spots:
    """Makes nodes' spots; keeps the last one of each: few of a thousand nodes change from moment to moment, but pages
    want all."""

    def __init__(self) -> None:
        self._made: dict[int, _Made] = {}

    def of(self, nodes: Iterable[tuple[NodeFacts, str]]) -> list[NodeSpot]:
        """The nodes' spots, in their order; each node with its section."""
        held, gpus, found = gpus_held(), _GPUS.read(), []
        for node, section in nodes:
            there = gpus.get(node.pk, ())
            holds = [held.get(gpu.pk) for gpu in there]
            made = self._made.get(node.pk)
            if made is None or made.spot[:2] != (node, section) or made.held != holds or made.gpus != there:
                made = self._made[node.pk] = _Made(there, holds, _spot(node, section, there, held))
            found.append(made.spot)
        return found


_SPOTS = _Spots()


def _spot(node: NodeFacts, section: str, gpus: Iterable[GpuFacts], held: Mapping[int, Held]) -> NodeSpot:
    """A node's spot, with GPUs present or held; those without a slot come last."""
    order = {slot: place for place, slot in enumerate(node.slots)}
    there = [gpu for gpu in gpus if gpu.present or gpu.pk in held]
    there.sort(key=lambda gpu: (order.get(gpu.slot, len(order)) if gpu.slot is not None else len(order), gpu.number))
    spots = [GpuSpot(gpu, _place(node, gpu, held.get(gpu.pk)), held.get(gpu.pk)) for gpu in there]
    places = Counter((spot.gpu.cell_type_id, spot.place) for spot in spots)
    return NodeSpot(node, section, spots, places, bool(node.why) or any(spot.fault for spot in spots))


def _place(node: NodeFacts, gpu: GpuFacts, held: Held | None) -> Place:
    if gpu.fault or not gpu.present or node.health == NodeHealth.LOST:
        return Place.SICK
    if held is not None:
        return Place.LENT if held.holder.standing == "borrowed" else Place.HELD
    is_open = node.intent == NodeIntent.OPEN and node.health == NodeHealth.HEALTHY and gpu.slot is not None
    return Place.FREE if is_open else Place.OUT


def _section(node: NodeFacts, uppers: Mapping[int, UpperCell]) -> str:
    """Cells above it, topmost first, else the rack's label."""
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
