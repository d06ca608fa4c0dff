"""HiveD's own choice of hardware for virtual cells: its buddy allocation, one quota cell after the other, with steps
back within bounds."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from scheduling.cells.allocator import Allocator
from scheduling.cells.cell_index import PhysicalCell, Quota
from scheduling.cells.cell_state import KEY_MASK
from scheduling.cells.node_bits import Sizes, bits
from scheduling.placement.attempt import PlacementAttempt
from scheduling.placement.physical_candidates import both
from scheduling.placement.physical_mapping import PhysicalMapping
from scheduling.placement.virtual_placement import VirtualPlacement

MOST_STEPS = 64
"""Quota cells for which hardware is looked for once more, as that found first left too little for another."""

Cells = list[tuple[int, list[VirtualPlacement]]]
"""Cell nodes of a quota cell, each with the tasks in it."""


def mapped(placing: PlacementAttempt, found: Sequence[VirtualPlacement]) -> PhysicalMapping | None:
    """Hardware for these virtual leaves, in their order; the allocator is left as it was."""
    layout = placing.allocator.layout
    by_quota: dict[int, list[VirtualPlacement]] = {}
    for one in found:
        by_quota.setdefault(layout.cell_quota[one.cell], []).append(one)
    plan = [(layout.quotas[number], mine) for number, mine in by_quota.items()]
    steps = iter(range(len(plan) + MOST_STEPS))

    def place_from(number: int) -> bool:
        if number == len(plan):
            return True
        return next(steps, None) is not None and _place(placing, *plan[number], partial(place_from, number + 1))

    placing.allocator.begin()
    try:
        if not place_from(0):
            return None
        return PhysicalMapping(tuple(placing.placement(one) for one in found), frozenset(placing.taken))
    finally:
        placing.allocator.rollback()


def _place(placing: PlacementAttempt, quota: Quota, found: list[VirtualPlacement], then: Callable[[], bool]) -> bool:
    """The tasks of one quota cell on the first hardware with which `then` is so, too."""
    if quota.loose:
        return placing.attempt(partial(both, partial(_leaf_by_leaf, placing, quota, found), then))
    cells: dict[int, list[VirtualPlacement]] = {}
    for one in found:
        cells.setdefault(one.cell, []).append(one)
    at = placing.allocator.place[quota.number]
    if quota.upper:
        among = [at.upper] if at is not None else uppers(placing.allocator, quota)
        ways = [partial(_in_upper, placing, quota, upper, sorted(cells.items())) for upper in among]
    else:
        ((cell, mine),) = cells.items()
        free = [at] if at is not None else spots(placing.allocator, quota, placing.allowed)
        ways = [partial(_at, placing, quota, cell, spot, mine) for spot in free]
    return any(placing.attempt(partial(both, way, then)) for way in ways)


def _in_upper(placing: PlacementAttempt, quota: Quota, upper: int, cells: Cells) -> bool:
    allocator = placing.allocator
    homes = {allocator.home[cell] for cell in range(quota.first, quota.first + quota.count)}
    taken = sum(1 << home.node for home in homes if home is not None)
    return _node_by_node(placing, quota, allocator.layout.uppers[upper].nodes & ~taken, cells)


def _node_by_node(placing: PlacementAttempt, quota: Quota, among: int, cells: Cells) -> bool:
    """One cell node after the other, on the node with the fewest borrowed leaves, with steps back."""
    if not cells:
        return True
    (cell, mine), rest = cells[0], cells[1:]
    home = placing.allocator.home[cell]
    for spot in [home] if home is not None else nodes(placing.allocator, among & placing.allowed):
        others = partial(_node_by_node, placing, quota, among & ~(1 << spot.node), rest)
        if placing.attempt(partial(both, partial(_at, placing, quota, cell, spot, mine), others)):
            return True
    return False


def _leaf_by_leaf(placing: PlacementAttempt, quota: Quota, found: list[VirtualPlacement]) -> bool:
    """The first leaf for each; one that is bound stays where it is."""
    allocator = placing.allocator
    for one in found:
        (virtual,) = bits(one.leaves)
        if one.leaves & allocator.used[one.cell]:
            places = iter([PhysicalCell(*allocator.physical_of(one.cell, virtual))])
        else:
            places = spots(allocator, quota, placing.allowed)
        spot = next((at for at in places if _usable(allocator, at.node) >> at.base & 1), None)
        if spot is None or not placing.allowed >> spot.node & 1 or not _bind(placing, spot, [one], {virtual: 0}):
            return False
    return True


def _at(placing: PlacementAttempt, quota: Quota, cell: int, spot: PhysicalCell, found: list[VirtualPlacement]) -> bool:
    """The tasks of one cell node onto the block at the spot."""
    pairs = _match(placing, quota, cell, spot, sum(one.leaves for one in found))
    return bool(placing.allowed >> spot.node & 1) and pairs is not None and _bind(placing, spot, found, pairs)


def _bind(placing: PlacementAttempt, spot: PhysicalCell, found: list[VirtualPlacement], pairs: dict[int, int]) -> bool:
    """These tasks have the physical leaves of a block that `pairs` names for their virtual ones."""
    at = {virtual: leaf + spot.base for virtual, leaf in pairs.items()}
    if not placing.pay(spot.node, sum(1 << leaf for leaf in at.values()), [one.demand for one in found]):
        return False
    for one in found:
        placing.bind(spot.node, {virtual: at[virtual] for virtual in bits(one.leaves)}, one)
    return True


def _usable(allocator: Allocator, number: int) -> int:
    return allocator.healthy[number] & ~allocator.claimed[number]


def _match(
    placing: PlacementAttempt, quota: Quota, cell: int, spot: PhysicalCell, leaves: int
) -> dict[int, int] | None:
    """Leaves of the block for the virtual leaves; those that a job holds stay where they are."""
    allocator, (number, base, _) = placing.allocator, spot
    block = (1 << quota.shape.width) - 1
    usable = _usable(allocator, number) >> base & block
    bound = {virtual: (key & KEY_MASK) - base for virtual, key in allocator.pairs[cell].items()}
    if not bound and leaves & usable & ~(allocator.busy[number] >> base) == leaves:
        return {bit: bit for bit in bits(leaves)}
    held = {virtual: leaf for virtual, leaf in bound.items() if leaves >> virtual & 1}
    if any(not allocator.healthy[number] >> base + leaf & 1 for leaf in held.values()):
        return None
    free = usable & ~sum(1 << leaf for leaf in bound.values())
    cheap = free & ~((allocator.busy[number] & ~placing.ending_on(number)) >> base)
    wanted = [bit for bit in bits(leaves) if bit not in held]
    found = _matched(quota.shape.sizes[::-1], (0, 0), wanted, bound, (free, cheap))
    return None if found is None else held | found


def _matched(
    sizes: Sizes, at: tuple[int, int], wanted: list[int], bound: dict[int, int], leaves: tuple[int, int]
) -> dict[int, int] | None:
    """Virtual leaves of the virtual cell at `at[0]` onto free leaves of the physical cell at `at[1]`: each child cell,
    in order, to that of the physical ones with enough free leaves which takes the fewest from others (`leaves`: the
    free ones, and those of them that nobody holds). `sizes`: of these cells and of all below them.
    """
    if not wanted:
        return {}
    if len(sizes) == 1:
        return {at[0]: at[1]} if leaves[0] >> at[1] & 1 else None
    size, children = sizes[1], {(one - at[0]) // sizes[1] for one in wanted}
    inside = {virtual: leaf for virtual, leaf in bound.items() if at[0] <= virtual < at[0] + sizes[0]}
    fixed = {(virtual - at[0]) // size: (leaf - at[1]) // size for virtual, leaf in inside.items()}
    child = min(children, key=lambda one: (one not in fixed, one))
    here = [one for one in wanted if (one - at[0]) // size == child]
    rest = [one for one in wanted if one not in here]
    for choice in [fixed[child]] if child in fixed else _choices(sizes, at[1], len(here), set(fixed.values()), leaves):
        below = (at[0] + child * size, at[1] + choice * size)
        mine = _matched(sizes[1:], below, here, bound, leaves)
        others = None if mine is None else _matched(sizes, at, rest, {**bound, **mine}, leaves)
        if mine is not None and others is not None:
            return mine | others
        if mine is not None and size == 1:
            break  # leaves are alike: another of them would change nothing for the rest
    return None


def _choices(sizes: Sizes, base: int, count: int, taken: set[int], leaves: tuple[int, int]) -> list[int]:
    ranked = []
    for number in range(sizes[0] // sizes[1]):
        block = (1 << sizes[1]) - 1 << base + number * sizes[1]
        free, cheap = ((one & block).bit_count() for one in leaves)
        if number not in taken and free >= count:
            ranked.append((max(0, count - cheap), -cheap, number))
    return [number for _, _, number in sorted(ranked)]


def spots(allocator: Allocator, quota: Quota, nodes: int) -> Iterator[PhysicalCell]:
    """Free physical cells, of at most a node, that a quota cell may be bound to: as few splits as possible, then
    the fewest borrowed leaves, in each cell on the way down from the free cell that is split.
    """
    layout, size = allocator.layout, 1 if quota.loose else quota.shape.width
    found = []
    for number in bits(nodes & layout.nodes_of_chain.get(quota.chain, 0)):
        shape = layout.shapes[number]
        if quota.cell_type in shape.names:
            free = (PhysicalCell(number, base) for base in range(0, shape.width, size))
            found += [(_way_down(allocator, spot, size), spot) for spot in free if allocator.is_free(spot, size)]
    return (spot for _, spot in sorted(found) if allocator.safe(spot, size))


def uppers(allocator: Allocator, quota: Quota) -> list[int]:
    """The same for a quota cell above the nodes: numbers of upper cells."""
    layout = allocator.layout
    found = []
    for number, upper in enumerate(layout.uppers):
        spot, first = PhysicalCell(-1, 0, number), next(bits(upper.nodes), None)
        alike = first is not None and (layout.chains[first], upper.cell_type) == (quota.chain, quota.cell_type)
        if alike and allocator.is_free(spot, 0) and allocator.safe(spot, 0):
            found.append((_way_down(allocator, spot, 0), number))
    return [number for _, number in sorted(found)]


def nodes(allocator: Allocator, among: int) -> list[PhysicalCell]:
    """Whole nodes of an upper cell, those with the fewest borrowed leaves first."""
    return [
        PhysicalCell(number, 0) for _, number in sorted((allocator.lent[one].bit_count(), one) for one in bits(among))
    ]


def _way_down(allocator: Allocator, spot: PhysicalCell, size: int) -> tuple[int, list[int]]:
    """How many cells are split, and the borrowed leaves of each wholly free cell around this one, the largest first."""
    layout = allocator.layout
    node = next(bits(layout.uppers[spot.upper].nodes)) if spot.upper >= 0 else spot.node
    lent = []
    if spot.upper < 0:
        free = allocator.full[node] & ~allocator.bound[node]
        for block in [one for one in layout.shapes[node].sizes if one >= size]:
            mask = (1 << block) - 1 << spot.base // block * block
            if free & mask == mask:
                lent.append((allocator.lent[node] & mask).bit_count())
    path = layout.above[node] if not allocator.bound[node] else ()
    for upper in path[path.index(spot.upper) :] if spot.upper >= 0 else path:
        if allocator.bound_nodes[upper]:
            break
        lent.append(sum(allocator.lent[one].bit_count() for one in bits(layout.uppers[upper].nodes)))
    return len(lent), lent[::-1]
