"""HiveD's own choice of virtual cells, for `Policy.hived`: what its cases are replayed with.

A virtual cluster is seen as a list of virtual nodes: the parts of its quota cells that lie on one node each, those
of whole nodes first, then smaller cells from large to small. Healthy ones come first, then the fullest; tasks, the
smallest first, fill them in one pass. First nobody's place is taken, then those of lower priorities. Berth's own
choice (`virtual`) is best-fit over cells of different size.
"""

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass

from scheduling.jobs import TaskRef
from scheduling.layout import Layout, Quota, Spot
from scheduling.ledger import Ledger
from scheduling.resources import Demand
from scheduling.topology import Sizes, bits
from scheduling.virtual import Seat

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


def look(ledger: Ledger, views: Views, vc: str, pool: str, nodes: int) -> None:
    """Keep the order in which the virtual nodes stand when somebody asks for them now; those of the cluster itself
    for an opportunistic job (no `vc`)."""
    if vc:
        views[vc, pool] = [(one.cell, one.base) for one in _sorted(ledger, views, vc, pool, nodes, None)]
    else:
        views[vc, pool] = [(number, 0) for number in _for_loans(ledger, views, pool, nodes)]


def _sorted(
    ledger: Ledger, views: Views, vc: str, pool: str, nodes: int, over: Callable[[str], bool] | None
) -> list[VirtualNode]:
    before = {one: place for place, one in enumerate(views.get((vc, pool), ()))}
    virtual = list(_virtual_nodes(ledger, vc, pool, nodes, over))
    virtual.sort(key=lambda one: before.get((one.cell, one.base), len(before)))
    virtual.sort(key=lambda one: (not one.healthy, not one.suggested, -one.used.bit_count()))
    return virtual


def seats(
    ledger: Ledger,
    views: Views,
    vc: str,
    pool: str,
    parts: Sequence[Demand],
    nodes: int,
    over: Callable[[str], bool] | None,
) -> list[Seat] | None:
    """Virtual leaves for all tasks of one chain (or pinned cell, `pool`); None when they do not fit in one pass.

    `nodes` are those that may be used, though they be out of service. `over` says of a job in the virtual cluster
    whether its leaves may be taken; None spares everybody.
    """
    virtual = _sorted(ledger, views, vc, pool, nodes, over)
    tasks = [(demand, task) for demand in sorted(parts, key=lambda part: part.gpus) for task in demand.tasks]
    found: list[Seat] = []
    for node in virtual:
        left = node.candidates()
        while tasks and len(left) >= tasks[0][0].gpus:
            if not node.healthy or not node.suggested:
                return None
            demand, task = tasks.pop(0)
            picked = _closest(left, demand.gpus, node.sizes)
            left = [bit for bit in left if bit not in picked]
            found.append(Seat(task, demand, node.cell, sum(1 << node.base + bit for bit in picked)))
    return None if tasks else found


def on_loan(
    ledger: Ledger, views: Views, chain: str, parts: Sequence[Demand], nodes: int
) -> list[tuple[Demand, TaskRef, int, int]] | None:
    """Idle leaves (a mask) of a node for each task of an opportunistic job; None when they do not fit in one pass."""
    tasks = [(demand, task) for demand in sorted(parts, key=lambda part: part.gpus) for task in demand.tasks]
    found: list[tuple[Demand, TaskRef, int, int]] = []
    for number in _for_loans(ledger, views, chain, nodes):
        left = list(bits(ledger.full[number] & ~ledger.busy[number] & ~ledger.claimed[number]))
        while tasks and len(left) >= tasks[0][0].gpus:
            if not _is_healthy(ledger, number) or not nodes >> number & 1:
                return None
            demand, task = tasks.pop(0)
            picked = _closest(left, demand.gpus, ledger.layout.shapes[number].sizes)
            left = [bit for bit in left if bit not in picked]
            found.append((demand, task, number, sum(1 << bit for bit in picked)))
    return None if tasks else found


def _for_loans(ledger: Ledger, views: Views, chain: str, nodes: int) -> list[int]:
    """The nodes of a chain: healthy ones first, then those with most on loan, then with least inside quotas."""

    def rank(number: int) -> tuple[bool, bool, int, int]:
        lent = ledger.lent[number] & ~ledger.claimed[number]
        inside = (ledger.busy[number] | ledger.claimed[number]) & ~lent
        return (
            not _is_healthy(ledger, number), not nodes >> number & 1, -lent.bit_count(), inside.bit_count(),
        )  # fmt: skip

    before = {number: place for place, (number, _) in enumerate(views.get(("", chain), ()))}
    mine = list(bits(ledger.layout.nodes_of_chain.get(chain, 0)))
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
    ledger: Ledger, vc: str, pool: str, nodes: int, over: Callable[[str], bool] | None
) -> Iterator[VirtualNode]:
    layout = ledger.layout
    numbers = layout.pins.get((vc, pool)) or layout.quotas_of.get((vc, pool), [])
    quotas = [layout.quotas[one] for one in numbers]
    doomed = {kind: _doomed(ledger, vc, *kind) for kind in {(one.chain, one.cell_type) for one in quotas}}
    for quota in sorted(quotas, key=lambda one: -_height(layout, one)):
        hidden = _bad_inside(ledger, quota, doomed[quota.chain, quota.cell_type])
        for cell in range(quota.first, quota.first + quota.count):
            spared = sum(mask for job, mask in ledger.owners[cell].items() if over is None or not over(job))
            for base in range(quota.leaves) if quota.loose else (0,):
                sizes = (1,) if quota.loose else quota.shape.sizes
                block = (1 << sizes[-1]) - 1
                node = VirtualNode(cell, base, sizes, ledger.used[cell] >> base & block, spared >> base & block)
                at = ledger.physical_of(cell, base)[0] if quota.loose and node.used else _node_of(ledger, cell)
                if at is not None:
                    node.healthy = _is_healthy(ledger, at)
                    node.suggested = bool(nodes >> at & 1)
                elif hidden:
                    node.healthy = False
                    hidden -= 1
                yield node


def _height(layout: Layout, quota: Quota) -> int:
    """Whole nodes and what is above them alike, then smaller cells by their level."""
    kind = layout.types.get(quota.cell_type)
    whole = quota.upper or (kind is not None and kind.node_level)
    return 1 << 30 if whole else 1 if quota.loose else len(quota.shape.sizes)


def _node_of(ledger: Ledger, cell: int) -> int | None:
    home = ledger.home[cell]
    if home is not None:
        return home.node
    quota = ledger.layout.quotas[ledger.layout.cell_quota[cell]]
    place = ledger.place[quota.number]
    return place.node if place is not None and place.upper < 0 else None


def _is_healthy(ledger: Ledger, number: int) -> bool:
    return bool(ledger.open_nodes >> number & 1) and ledger.healthy[number] == ledger.full[number]


def _bad_inside(ledger: Ledger, quota: Quota, doomed: list[int]) -> int:
    """Cell nodes (or loose leaves) of a quota cell that lie nowhere yet and will lie on a bad node.

    In an upper cell that it is bound to: the bad nodes there that none of its cell nodes lies on. Unbound: what the
    next `doomed` cell would bring, which is used up by it.
    """
    place = ledger.place[quota.number]
    if quota.loose:
        return sum(doomed)
    if place is None:
        return doomed.pop(0) if doomed else 0
    if place.upper < 0:
        return 0
    homes = {home.node for cell in range(quota.first, quota.first + quota.count) if (home := ledger.home[cell])}
    nodes = bits(ledger.layout.uppers[place.upper].nodes)
    return sum(number not in homes and not _is_healthy(ledger, number) for number in nodes)


def _doomed(ledger: Ledger, vc: str, chain: str, cell_type: str) -> list[int]:
    """The bad nodes in each of the bad cells that free quota cells of the type will have to lie on (`health`)."""
    layout = ledger.layout
    free = 0
    for quota in (layout.quotas[one] for one in layout.quotas_of.get((vc, chain), ())):
        if quota.cell_type == cell_type and quota.loose:
            free += quota.leaves - ledger.used[quota.first].bit_count()
        elif quota.cell_type == cell_type:
            free += ledger.place[quota.number] is None
    found = list(_bad_nodes_of_unbound(ledger, chain, cell_type)) if free else []
    bad = [count for count in found if count]
    return bad[: max(0, free - (len(found) - len(bad)))]


def _bad_nodes_of_unbound(ledger: Ledger, chain: str, cell_type: str) -> Iterator[int]:
    """For each cell of the type that belongs to no quota cell, its bad nodes."""
    layout = ledger.layout
    for number in bits(layout.nodes_of_chain.get(chain, 0)):
        shape = layout.shapes[number]
        if cell_type in shape.names:
            size = shape.sizes[shape.names.index(cell_type)]
            for base in range(0, shape.width, size):
                if not ledger.bound[number] >> base & (1 << size) - 1:
                    yield int(not _is_healthy(ledger, number))
    for place, upper in enumerate(layout.uppers):
        mine = upper.cell_type == cell_type and upper.nodes and not ledger.bound_nodes[place]
        if mine and layout.chains[next(bits(upper.nodes))] == chain:
            yield sum(not _is_healthy(ledger, number) for number in bits(upper.nodes))


# Hardware, in the order in which HiveD's buddy allocation tries it


def spots(ledger: Ledger, quota: Quota, nodes: int) -> Iterator[Spot]:
    """Free physical cells, of at most a node, that a quota cell may be bound to: as few splits as possible, then
    the fewest borrowed leaves, in each cell on the way down from the free cell that is split.
    """
    layout, size = ledger.layout, 1 if quota.loose else quota.shape.width
    found = []
    for number in bits(nodes & layout.nodes_of_chain.get(quota.chain, 0)):
        shape = layout.shapes[number]
        if quota.cell_type in shape.names:
            free = (Spot(number, base) for base in range(0, shape.width, size))
            found += [(_way_down(ledger, spot, size), spot) for spot in free if ledger.is_free(spot, size)]
    return (spot for _, spot in sorted(found) if ledger.safe(spot, size))


def uppers(ledger: Ledger, quota: Quota) -> list[int]:
    """The same for a quota cell above the nodes: numbers of upper cells."""
    layout = ledger.layout
    found = []
    for number, upper in enumerate(layout.uppers):
        spot, first = Spot(-1, 0, number), next(bits(upper.nodes), None)
        alike = first is not None and (layout.chains[first], upper.cell_type) == (quota.chain, quota.cell_type)
        if alike and ledger.is_free(spot, 0) and ledger.safe(spot, 0):
            found.append((_way_down(ledger, spot, 0), number))
    return [number for _, number in sorted(found)]


def nodes(ledger: Ledger, among: int) -> list[Spot]:
    """Whole nodes of an upper cell, those with the fewest borrowed leaves first."""
    return [Spot(number, 0) for _, number in sorted((ledger.lent[one].bit_count(), one) for one in bits(among))]


def _way_down(ledger: Ledger, spot: Spot, size: int) -> tuple[int, list[int]]:
    """How many cells are split, and the borrowed leaves of each wholly free cell around this one, the largest first."""
    layout = ledger.layout
    node = next(bits(layout.uppers[spot.upper].nodes)) if spot.upper >= 0 else spot.node
    lent = []
    if spot.upper < 0:
        free = ledger.full[node] & ~ledger.bound[node]
        for block in [one for one in layout.shapes[node].sizes if one >= size]:
            mask = (1 << block) - 1 << spot.base // block * block
            if free & mask == mask:
                lent.append((ledger.lent[node] & mask).bit_count())
    path = layout.above[node] if not ledger.bound[node] else ()
    for upper in path[path.index(spot.upper) :] if spot.upper >= 0 else path:
        if ledger.bound_nodes[upper]:
            break
        lent.append(sum(ledger.lent[one].bit_count() for one in bits(layout.uppers[upper].nodes)))
    return len(lent), lent[::-1]
