"""The physical cells that one quota cell may lie on, those first where its tasks find all they need and where the least
is split and taken back, and the leaves that its tasks get there.
"""

from collections.abc import Callable, Iterator
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import groupby
from typing import NamedTuple

from scheduling.cells.cell_index import PhysicalCell, Quota
from scheduling.cells.cell_state import KEY_MASK, lies_straight
from scheduling.cells.node_bits import Match, Sizes, agrees, bits, free_blocks
from scheduling.placement.attempt import PlacementAttempt
from scheduling.placement.virtual_placement import VirtualPlacement
from scheduling.preemption.victim_cost import NOTHING, Cost


def done() -> bool:
    """Nothing more is wanted."""
    return True


def both(first: Callable[[], bool], then: Callable[[], bool]) -> bool:
    """One after the other, as far as they succeed."""
    return first() and then()


class Ranked(NamedTuple):
    """A sort of free cell: its rank (faulty, larger cells split, borrowed leaves), the lowest node (plus 1), where in
    the node it begins, the nodes (a mask), and how many leaves would be taken back there."""

    rank: tuple[int, int, int]
    lowest: int
    base: int
    members: int
    evicted: int

    @property
    def lent(self) -> int:
        """Its borrowed leaves."""
        return self.rank[2]


def _damage(one: Ranked) -> tuple[int, int]:
    faulty, split, _ = one.rank
    return faulty, split


class PhysicalCandidates:
    """The physical cells that one quota cell may lie on, or lies on already."""

    def __init__(self, placing: PlacementAttempt, quota: Quota) -> None:
        self.placing = placing
        self.allocator = placing.allocator
        self.quota = quota

    def place(self, assignments: list[VirtualPlacement], then: Callable[[], bool]) -> bool:
        """Puts the assignments of the quota cell on the first hardware with which `then` succeeds, too."""
        cells: dict[int, list[VirtualPlacement]] = {}
        for assignment in assignments:
            cells.setdefault(assignment.cell, []).append(assignment)
        place = self.allocator.place[self.quota.number]
        if self.quota.upper:
            uppers = [place.upper] if place is not None else self._uppers(cells)
            ways = (partial(self._in_upper, upper, cells) for upper in uppers)
            return any(self.placing.attempt(partial(both, way, then)) for way in ways)
        ((cell, mine),) = cells.items()
        spots = self._ways(wanted(mine).bit_count()) if place is None else iter([(place, True)])
        return any(
            self.placing.attempt(partial(both, partial(self._at, cell, spot, mine, make_room), then))
            for spot, make_room in spots
        )

    def place_one(self, assignment: VirtualPlacement) -> bool:
        """The same for the only assignment: a spot that will not do has changed nothing."""
        if self.quota.upper:
            return self.place([assignment], done)
        place = self.allocator.place[self.quota.number]
        ways = self._ways(assignment.leaves.bit_count()) if place is None else iter([(place, True)])
        for spot, make_room in ways:
            if self._idles(assignment, spot) or self._at(assignment.cell, spot, [assignment], make_room):
                return True
            self.placing.forget()
        return False

    def _idles(self, assignment: VirtualPlacement, spot: PhysicalCell) -> bool:
        """Whether the only assignment's very leaves idle there, with enough CPU and memory. It is nearly always so, and
        then there is nothing to match and nobody to evict."""
        allocator, placing, number = self.allocator, self.placing, spot.node
        if not placing.allowed >> number & 1 or assignment.leaves << spot.base & ~allocator.idle(number):
            return False
        if not lies_straight(allocator.pairs[assignment.cell], spot):
            return False
        cpu, memory = placing.left(number)
        placing.leaves[assignment.task] = number, [(bit + spot.base, bit) for bit in bits(assignment.leaves)]
        return assignment.demand.cpu_milli <= cpu and assignment.demand.memory_mb <= memory

    # Cells above the node

    def _in_upper(self, upper: int, cells: dict[int, list[VirtualPlacement]]) -> bool:
        """Every cell node to a node of this upper cell."""
        allocator, quota = self.allocator, self.quota
        nodes = allocator.layout.uppers[upper].nodes
        homes = {allocator.home[cell] for cell in range(quota.first, quota.first + quota.count)}
        taken = sum(1 << home.node for home in homes if home is not None)
        for cell, mine in sorted(cells.items(), key=lambda one: (-wanted(one[1]).bit_count(), one[0])):
            home = allocator.home[cell]
            choices = self._nodes(nodes & ~taken, wanted(mine).bit_count()) if home is None else [home]
            chosen = next((spot for spot in choices if self.placing.attempt(partial(self._at, cell, spot, mine))), None)
            if chosen is None:
                return False
            taken |= 1 << chosen.node
        return True

    def _uppers(self, cells: dict[int, list[VirtualPlacement]]) -> list[int]:
        """Upper cells of the type that may be bound, those that cost least first."""
        allocator, layout = self.allocator, self.allocator.layout
        needs = sorted((wanted(mine).bit_count() for mine in cells.values()), reverse=True)
        ranked = []
        for number, upper in enumerate(layout.uppers):
            spot = PhysicalCell(-1, 0, number)
            if upper.cell_type != self.quota.cell_type or not upper.nodes or not allocator.is_free(spot, 0):
                continue
            if layout.chains[next(bits(upper.nodes))] != self.quota.chain or not allocator.safe(spot, 0):
                continue
            nodes = self._nodes(upper.nodes, needs[-1])
            evicted = sum(self._evicted(spot.node, need) for spot, need in zip(nodes, needs, strict=False))
            lent = sum(allocator.lent[one].bit_count() for one in bits(upper.nodes))
            split = len(allocator.split_by(spot, 0))
            if len(nodes) >= len(needs):
                ranked.append(((evicted, split, lent), number))
        return [number for _, number in sorted(ranked)]

    def _evicted(self, number: int, need: int) -> int:
        return max(0, need - self.allocator.idle(number).bit_count())

    def _loss(self, number: int, block: int, evicted: int) -> Cost:
        """What the cell costs if it lies on this block: who pays is whoever has to leave now, but the loss is that of
        all who run there, for they have to go as the cell fills."""
        if not evicted:
            return NOTHING
        usable = self._usable(number, block)
        protected, turn, *_ = self.placing.price(number, usable, evicted)[0]
        ((_, _, counted, lost, gpus),) = self.placing.at_least([(number, usable)])
        return protected, turn, counted, lost, gpus

    def _usable(self, number: int, block: int) -> int:
        return block & self.allocator.healthy[number] & ~self.allocator.claimed[number]

    def _nodes(self, nodes: int, need: int) -> list[PhysicalCell]:
        """Whole nodes for a cell node, those where least is taken back first."""
        ranked = []
        for number in bits(nodes & self.placing.allowed):
            usable = self._usable(number, -1)
            if usable.bit_count() >= need:
                lent, evicted = self.allocator.lent[number].bit_count(), self._evicted(number, need)
                ranked.append((self._loss(number, usable, evicted), evicted, lent, number))
        return [PhysicalCell(number, 0) for *_, number in sorted(ranked)]

    # Cells of at most a node

    def _ways(self, need: int) -> Iterator[tuple[PhysicalCell, bool]]:
        """Free physical cells of the quota cell's type, in the order to try them, and whether CPU and memory may be
        taken back there: those from which nothing is taken back; then those whose GPUs idle; then those from which GPUs
        are taken back at the least loss.
        """
        ranked = self._ranked(need)
        for make_room in (False, True):
            yield from ((spot, make_room) for spot in self._calm(ranked))
        yield from ((spot, True) for spot in self._by_loss([one for one in ranked if one.evicted]))

    def _calm(self, ranked: list[Ranked]) -> Iterator[PhysicalCell]:
        """Cells whose GPUs nobody has to leave: without faults, that split the fewest larger cells, with the fewest
        borrowed leaves (or, by the cluster's policy, the least work of borrowers)."""
        calm = sorted(one for one in ranked if not one.evicted)
        if self.placing.costs.by_share:
            for one in calm:
                yield from self._least_split(one.base, one.members)
        else:
            for _, alike in groupby(calm, _damage):
                yield from self._least_at_risk(list(alike))

    def _least_at_risk(self, sorts: list[Ranked]) -> Iterator[PhysicalCell]:
        """Cells where nobody has to leave yet: those without borrowers, then those whose borrowers will lose least, for
        they have to go as the cell fills."""
        for one in sorts:
            if not one.lent:
                yield from self._least_split(one.base, one.members)
        yield from self._by_loss([one for one in sorts if one.lent])

    def _ranked(self, need: int) -> list[Ranked]:
        """Every sort of free cell that is large enough."""
        allocator, size, kind = self.allocator, self.quota.shape.width, self.quota.cell_type
        nodes = self.placing.allowed & allocator.layout.nodes_of_chain.get(self.quota.chain, 0)
        found = []
        for (number, bound, lent, busy, blocked), members in allocator.groups.items():
            shape = allocator.shapes[number]
            unbound = shape.full & ~bound
            if unbound.bit_count() < size:
                continue  # what most nodes are on a busy cluster
            members &= nodes
            if not members or kind not in shape.names:
                continue
            for split, base in free_blocks(shape.sizes, unbound, size):
                block = (1 << size) - 1 << base
                usable = (block & ~blocked).bit_count()
                if usable < need:
                    continue
                evicted = max(0, need - (block & ~blocked & ~busy).bit_count())
                many, faulty = (lent & block).bit_count(), int(usable < size)
                rank = (faulty, split, many)
                found.append(Ranked(rank, (members & -members).bit_length(), base, members, evicted))
        return found

    def _by_loss(self, sorts: list[Ranked]) -> Iterator[PhysicalCell]:
        """Cells from which leaves are taken back, the least loss first: each is queued with what it costs at
        least, and when its turn comes, with what it costs."""
        size = self.quota.shape.width
        full = (1 << size) - 1
        heap: list[tuple[Cost, tuple[int, int, int], int, int, int]] = []
        for rank, _, base, members, evicted in sorts:
            numbers = list(bits(members))
            costs = self.placing.at_least([(number, self._usable(number, full << base)) for number in numbers])
            heap += [(cost, rank, number, base, evicted) for cost, number in zip(costs, numbers, strict=True)]
        heapify(heap)
        while heap:
            _, rank, number, base, evicted = heappop(heap)
            if evicted:
                heappush(heap, (self._loss(number, full << base, evicted), rank, number, base, 0))
            elif self.allocator.safe(PhysicalCell(number, base), size):
                yield PhysicalCell(number, base)

    def _least_split(self, base: int, members: int) -> Iterator[PhysicalCell]:
        """The same cell of alike nodes, those first that split the fewest cells above the node."""
        allocator, size = self.allocator, self.quota.shape.width
        known: dict[tuple[int, ...], tuple[bool, int]] = {}
        ranked = []
        for number in bits(members):
            spot, above = PhysicalCell(number, base), allocator.layout.above[number]
            if above not in known:
                split = allocator.split_by(spot, size)
                known[above] = allocator.spared(split), len(split)
            safe, count = known[above]
            if safe and not allocator.layout.uppers:
                yield spot
            elif safe:
                ranked.append((count, spot))
        yield from (spot for _, spot in sorted(ranked))

    # Leaves

    def _at(self, cell: int, spot: PhysicalCell, assignments: list[VirtualPlacement], make_room: bool = True) -> bool:
        """Puts the assignments of one cell node on the block at the spot, if they find leaves, CPU and memory there."""
        if not self.placing.allowed >> spot.node & 1:
            return False
        found = self._match(cell, spot, wanted(assignments))
        if found is None:
            return False
        mask = sum(1 << bit for bit in found.values())
        if not self.placing.pay(spot.node, mask, [one.demand for one in assignments], make_room=make_room):
            return False
        for assignment in assignments:
            self.placing.bind(spot.node, {one: found[one] for one in bits(assignment.leaves)}, assignment)
        return True

    def _match(self, cell: int, spot: PhysicalCell, leaves: int) -> dict[int, int] | None:
        """Bits of the node for the virtual leaves; used ones stay where they are."""
        allocator, placing = self.allocator, self.placing
        number, base = spot.node, spot.base
        block = (1 << self.quota.shape.width) - 1
        if not allocator.pairs[cell]:
            cheap = allocator.healthy[number] & ~allocator.claimed[number] & ~allocator.busy[number]
            if leaves & cheap >> base & block == leaves:
                return {bit: bit + base for bit in bits(leaves)}
        pairs = {virtual: (key & KEY_MASK) - base for virtual, key in allocator.pairs[cell].items()}
        in_use = {virtual: bit for virtual, bit in pairs.items() if leaves >> virtual & 1}
        if any(not allocator.healthy[number] >> base + bit & 1 for bit in in_use.values()):
            return None
        bound = sum(1 << bit for bit in pairs.values())
        usable = (allocator.healthy[number] & ~allocator.claimed[number]) >> base & block & ~bound
        cheap = usable & ~((allocator.busy[number] & ~placing.ending_on(number)) >> base)
        new = leaves & ~sum(1 << virtual for virtual in in_use)
        alike = all(virtual == bit for virtual, bit in pairs.items())
        if alike and new & cheap == new:
            found: dict[int, int] | None = {virtual: virtual for virtual in bits(new)}
        else:
            found = self._cheapest_match(number, base, new, pairs, (usable if placing.evict else cheap, cheap))
        if found is None:
            return None
        return {virtual: bit + base for virtual, bit in (in_use | found).items()}

    def _cheapest_match(
        self, number: int, base: int, new: int, pairs: dict[int, int], leaves: tuple[int, int]
    ) -> dict[int, int] | None:
        """Leaves of a block for the new virtual ones: those that cost least together, if they can be matched."""
        usable, cheap = leaves
        missing = new.bit_count() - cheap.bit_count()
        sizes = self.quota.shape.sizes
        if missing > 0:
            _, mine = self.placing.price(number, usable << base, missing)
            found = _match(sizes, pairs, new, cheap | mine >> base & usable, cheap)
            if found is not None:
                return found
        return Match(sizes, pairs, usable, cheap).run(new)


def _match(sizes: Sizes, pairs: dict[int, int], new: int, free: int, cheap: int) -> dict[int, int] | None:
    """The new virtual leaves onto free leaves of a block; one leaf onto one is but a question."""
    if new.bit_count() == 1 == free.bit_count():
        virtual, physical = new.bit_length() - 1, free.bit_length() - 1
        return {virtual: physical} if agrees(sizes, pairs, virtual, physical) else None
    return Match(sizes, pairs, free, cheap).run(new)


def wanted(assignments: list[VirtualPlacement]) -> int:
    """All virtual leaves of these assignments of one cell node."""
    mask = 0
    for assignment in assignments:
        mask |= assignment.leaves
    return mask
