"""HiveD's own choice of virtual cells, with which its cases are replayed.

A virtual cluster is seen as a list of virtual nodes: the parts of its quota cells that lie on one node each, those
of whole nodes first, then smaller cells from large to small. Healthy ones come first, then the fullest; tasks, the
smallest first, fill them in one pass. First nobody's place is taken, then those of lower priorities. Berth's own
choice (`virtual`) is best-fit over cells of different size.
"""

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass

from scheduling.cells.allocator import Allocator
from scheduling.cells.cell_index import CellIndex, Quota
from scheduling.cells.node_bits import Sizes, bits
from scheduling.cells.resources import Demand
from scheduling.model.job import TaskRef
from scheduling.placement.virtual_placement import VirtualPlacement

Views = MutableMapping[tuple[str, str], list[tuple[int, int]]]
"""The order in which a virtual cluster's nodes of a chain (or pinned cell) stood when it was last asked for: cell node
and first leaf. HiveD sorts that same list each time, so that among equals the order before decides."""


@dataclass(slots=True)
class VirtualNode:
    """Leaves of a cell node that a task may lie in: a whole cell node, or one loose leaf (`base`)."""

    cell: int
    base: int
    sizes: Sizes
    used: int
    spared: int
    healthy: bool = True
    suggested: bool = True

    @property
    def width(self) -> int:
        """Number of leaves."""
        return self.sizes[-1]

    def candidates(self) -> list[int]:
        """Leaves that may be taken, in order: the free ones, then those of lower priorities."""
        free = [bit for bit in range(self.width) if not self.used >> bit & 1]
        return free + [bit for bit in range(self.width) if self.used >> bit & 1 and not self.spared >> bit & 1]


def look(allocator: Allocator, views: Views, vc: str, pool: str, nodes: int) -> None:
    """Keep the order in which the virtual nodes stand when somebody asks for them now; those of the cluster itself
    for an opportunistic job (no `vc`)."""
    if vc:
        views[vc, pool] = [(one.cell, one.base) for one in _sorted(allocator, views, vc, pool, nodes, None)]
    else:
        views[vc, pool] = [(number, 0) for number in _for_loans(allocator, views, pool, nodes)]


def _sorted(
    allocator: Allocator, views: Views, vc: str, pool: str, nodes: int, over: Callable[[str], bool] | None
) -> list[VirtualNode]:
    before = {one: place for place, one in enumerate(views.get((vc, pool), ()))}
    virtual = list(_virtual_nodes(allocator, vc, pool, nodes, over))
    virtual.sort(key=lambda one: before.get((one.cell, one.base), len(before)))
    virtual.sort(key=lambda one: (not one.healthy, not one.suggested, -one.used.bit_count()))
    return virtual


def in_quota(
    allocator: Allocator,
    views: Views,
    vc: str,
    pool: str,
    parts: Sequence[Demand],
    nodes: int,
    over: Callable[[str], bool] | None,
) -> list[VirtualPlacement] | None:
    """Virtual leaves for all tasks of one chain (or pinned cell, `pool`); None when they do not fit in one pass.

    `nodes` are those that may be used, though they be out of service. `over` says of a job in the virtual cluster
    whether its leaves may be taken; None spares everybody.
    """
    virtual = _sorted(allocator, views, vc, pool, nodes, over)
    tasks = [(demand, task) for demand in sorted(parts, key=lambda part: part.gpus) for task in demand.tasks]
    found: list[VirtualPlacement] = []
    for node in virtual:
        left = node.candidates()
        while tasks and len(left) >= tasks[0][0].gpus:
            if not node.healthy or not node.suggested:
                return None
            demand, task = tasks.pop(0)
            picked = _closest(left, demand.gpus, node.sizes)
            left = [bit for bit in left if bit not in picked]
            found.append(VirtualPlacement(task, demand, node.cell, sum(1 << node.base + bit for bit in picked)))
    return None if tasks else found


def on_loan(
    allocator: Allocator, views: Views, chain: str, parts: Sequence[Demand], nodes: int
) -> list[tuple[Demand, TaskRef, int, int]] | None:
    """Idle leaves (a mask) of a node for each task of an opportunistic job; None when they do not fit in one pass."""
    tasks = [(demand, task) for demand in sorted(parts, key=lambda part: part.gpus) for task in demand.tasks]
    found: list[tuple[Demand, TaskRef, int, int]] = []
    for number in _for_loans(allocator, views, chain, nodes):
        left = list(bits(allocator.full[number] & ~allocator.busy[number] & ~allocator.claimed[number]))
        while tasks and len(left) >= tasks[0][0].gpus:
            if not _is_healthy(allocator, number) or not nodes >> number & 1:
                return None
            demand, task = tasks.pop(0)
            picked = _closest(left, demand.gpus, allocator.layout.shapes[number].sizes)
            left = [bit for bit in left if bit not in picked]
            found.append((demand, task, number, sum(1 << bit for bit in picked)))
    return None if tasks else found


def _for_loans(allocator: Allocator, views: Views, chain: str, nodes: int) -> list[int]:
    """The nodes of a chain: healthy ones first, then those with most on loan, then with least inside quotas."""

    def rank(number: int) -> tuple[bool, bool, int, int]:
        lent = allocator.lent[number] & ~allocator.claimed[number]
        inside = (allocator.busy[number] | allocator.claimed[number]) & ~lent
        return (
            not _is_healthy(allocator, number), not nodes >> number & 1, -lent.bit_count(), inside.bit_count(),
        )  # fmt: skip

    before = {number: place for place, (number, _) in enumerate(views.get(("", chain), ()))}
    mine = list(bits(allocator.layout.nodes_of_chain.get(chain, 0)))
    mine.sort(key=lambda number: before.get(number, len(before)))
    return sorted(mine, key=rank)


def _closest(candidates: list[int], count: int, sizes: Sizes) -> list[int]:
    """The first leaves, in order, that lie in the smallest cell that holds so many."""
    for size in sizes:
        for bit in candidates if size >= count else ():
            near = [one for one in candidates[candidates.index(bit) :] if one // size == bit // size]
            if len(near) >= count:
                return near[:count]
    return []


def _virtual_nodes(
    allocator: Allocator, vc: str, pool: str, nodes: int, over: Callable[[str], bool] | None
) -> Iterator[VirtualNode]:
    layout = allocator.layout
    numbers = layout.pins.get((vc, pool)) or layout.quotas_of.get((vc, pool), [])
    quotas = [layout.quotas[one] for one in numbers]
    doomed = {kind: _doomed(allocator, vc, *kind) for kind in {(one.chain, one.cell_type) for one in quotas}}
    for quota in sorted(quotas, key=lambda one: -_height(layout, one)):
        hidden = _bad_inside(allocator, quota, doomed[quota.chain, quota.cell_type])
        for cell in range(quota.first, quota.first + quota.count):
            spared = sum(mask for job, mask in allocator.owners[cell].items() if over is None or not over(job))
            for base in range(quota.leaves) if quota.loose else (0,):
                sizes = (1,) if quota.loose else quota.shape.sizes
                block = (1 << sizes[-1]) - 1
                node = VirtualNode(cell, base, sizes, allocator.used[cell] >> base & block, spared >> base & block)
                at = allocator.physical_of(cell, base)[0] if quota.loose and node.used else _node_of(allocator, cell)
                if at is not None:
                    node.healthy = _is_healthy(allocator, at)
                    node.suggested = bool(nodes >> at & 1)
                elif hidden:
                    node.healthy = False
                    hidden -= 1
                yield node


def _height(layout: CellIndex, quota: Quota) -> int:
    """Whole nodes and what is above them alike, then smaller cells by their level."""
    kind = layout.types.get(quota.cell_type)
    whole = quota.upper or (kind is not None and kind.node_level)
    return 1 << 30 if whole else 1 if quota.loose else len(quota.shape.sizes)


def _node_of(allocator: Allocator, cell: int) -> int | None:
    home = allocator.home[cell]
    if home is not None:
        return home.node
    quota = allocator.layout.quotas[allocator.layout.cell_quota[cell]]
    place = allocator.place[quota.number]
    return place.node if place is not None and place.upper < 0 else None


def _is_healthy(allocator: Allocator, number: int) -> bool:
    return bool(allocator.open_nodes >> number & 1) and allocator.healthy[number] == allocator.full[number]


def _bad_inside(allocator: Allocator, quota: Quota, doomed: list[int]) -> int:
    """Cell nodes (or loose leaves) of a quota cell that lie nowhere yet and will lie on a bad node.

    In an upper cell that it is bound to: the bad nodes there that none of its cell nodes lies on. Unbound: what the
    next `doomed` cell would bring, which is used up by it.
    """
    place = allocator.place[quota.number]
    if quota.loose:
        return sum(doomed)
    if place is None:
        return doomed.pop(0) if doomed else 0
    if place.upper < 0:
        return 0
    homes = {home.node for cell in range(quota.first, quota.first + quota.count) if (home := allocator.home[cell])}
    nodes = bits(allocator.layout.uppers[place.upper].nodes)
    return sum(number not in homes and not _is_healthy(allocator, number) for number in nodes)


def _doomed(allocator: Allocator, vc: str, chain: str, cell_type: str) -> list[int]:
    """The bad nodes in each of the bad cells that free quota cells of the type will have to lie on (`health`)."""
    layout = allocator.layout
    free = 0
    for quota in (layout.quotas[one] for one in layout.quotas_of.get((vc, chain), ())):
        if quota.cell_type == cell_type and quota.loose:
            free += quota.leaves - allocator.used[quota.first].bit_count()
        elif quota.cell_type == cell_type:
            free += allocator.place[quota.number] is None
    found = list(_bad_nodes_of_unbound(allocator, chain, cell_type)) if free else []
    bad = [count for count in found if count]
    return bad[: max(0, free - (len(found) - len(bad)))]


def _bad_nodes_of_unbound(allocator: Allocator, chain: str, cell_type: str) -> Iterator[int]:
    """For each cell of the type that belongs to no quota cell, its bad nodes."""
    layout = allocator.layout
    for number in bits(layout.nodes_of_chain.get(chain, 0)):
        shape = layout.shapes[number]
        if cell_type in shape.names:
            size = shape.sizes[shape.names.index(cell_type)]
            for base in range(0, shape.width, size):
                if not allocator.bound[number] >> base & (1 << size) - 1:
                    yield int(not _is_healthy(allocator, number))
    for place, upper in enumerate(layout.uppers):
        mine = upper.cell_type == cell_type and upper.nodes and not allocator.bound_nodes[place]
        if mine and layout.chains[next(bits(upper.nodes))] == chain:
            yield sum(not _is_healthy(allocator, number) for number in bits(upper.nodes))
