"""The map's data for the browser: arrays instead of objects, names once, so that 1,600 GPUs take some kilobytes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

import msgspec

from portal.cluster.selectors.holders import Held
from portal.cluster.selectors.overview import GpuSpot, NodeSpot, Overview
from portal.hardware.selectors.live import Live, gpus_live
from portal.teams.selectors.visible import JobSight

NOBODY = -1
UNKNOWN = -1


class HolderDot(msgspec.Struct, frozen=True, array_like=True):
    """A task. ``job`` 0 and ``label`` empty: hidden."""

    vc: str
    user: str
    standing: str
    job: int
    label: str


class GpuDot(msgspec.Struct, frozen=True, array_like=True):
    """A GPU. ``holder``: index into the holders, ``use``: percent."""

    index: int
    place: str
    holder: int
    use: int
    fault: str


class NodeDot(msgspec.Struct, frozen=True, array_like=True):
    """A node. ``section``, ``shape``: indices into their lists."""

    name: str
    state: str
    why: str
    section: int
    shape: int
    sku: str
    gpus: list[GpuDot]


class Dots(msgspec.Struct, frozen=True):
    """The whole map. ``shapes``: per kind of node the cells inside it, as name and GPUs, largest first. ``vcs``:
    virtual clusters in the order of creation."""

    vcs: list[str]
    sections: list[str]
    shapes: list[list[tuple[str, int]]]
    holders: list[HolderDot]
    nodes: list[NodeDot]


def dots_written(found: Overview, *, vcs: Iterable[str], sight: JobSight) -> bytes:
    """The map as JSON, for a reader's sight. One Redis request."""
    live = gpus_live(nodes=[one.node.name for one in found.nodes])
    sections = _numbered(one.section for one in found.nodes)
    shapes = _numbered(one.node.shape_id for one in found.nodes)
    holders = _Holders(sight)
    nodes = [
        NodeDot(
            one.node.name, one.node.state, one.node.why, sections[one.section], shapes[one.node.shape_id],
            _sku(one, found.skus),
            [_gpu(spot, holders, live.get((one.node.name, spot.gpu.uuid))) for spot in one.gpus],
        )
        for one in found.nodes
    ]  # fmt: skip
    groups = [found.groups.get(shape, []) if shape is not None else [] for shape in shapes]
    return msgspec.json.encode(Dots(list(vcs), list(sections), groups, holders.dots, nodes))


Value = TypeVar("Value", bound=Hashable)


def _numbered(values: Iterable[Value]) -> dict[Value, int]:
    """Each distinct value's index, in the order of their first appearance."""
    return {value: number for number, value in enumerate(dict.fromkeys(values))}


def _sku(one: NodeSpot, skus: Mapping[int, str]) -> str:
    return skus[one.gpus[0].gpu.cell_type_id] if one.gpus else ""


def _gpu(spot: GpuSpot, holders: _Holders, reading: Live | None) -> GpuDot:
    use = reading.reading.utilisation if reading else None
    return GpuDot(spot.gpu.number, spot.place, holders.place(spot.held), UNKNOWN if use is None else use, spot.fault)


class _Holders:
    """List of holders, each task once."""

    def __init__(self, sight: JobSight) -> None:
        self.dots: list[HolderDot] = []
        self._sight = sight
        self._places: dict[Held, int] = {}

    def place(self, held: Held | None) -> int:
        """Its index in the list."""
        if held is None:
            return NOBODY
        if held not in self._places:
            self._places[held] = len(self.dots)
            self.dots.append(self._dot(held))
        return self._places[held]

    def _dot(self, held: Held) -> HolderDot:
        one = held.holder
        if not self._sight.covers(user_id=one.user_id, vc_id=one.vc_id):
            return HolderDot(one.vc, one.username, one.standing, 0, "")
        return HolderDot(one.vc, one.username, one.standing, one.job_id, f"{one.label} ({one.role}/{one.index})")
