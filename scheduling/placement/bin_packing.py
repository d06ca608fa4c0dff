"""Bins for tasks: the smallest cell that holds each task, the fewest bins for a gang, the tightest fit.

A bin is a node, or the part of a virtual cell that lies on one node; a task never spans two. `find` answers with
counts of tasks per bin.
"""

from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduling.cells.node_bits import Sizes, best_level, bits, holds, pick
from scheduling.cells.resources import UNLIMITED, Demand, FreeResources

SEARCH_STEPS = 5_000
SEARCH_TASKS = 200
"""Bounds of the exhaustive search for gangs of unequal tasks; beyond them the gang counts as not fitting."""


@dataclass(frozen=True, slots=True)
class Fill:
    """`count` tasks of a demand in the bin of this number."""

    bin: int
    demand: Demand
    count: int


@dataclass(slots=True)
class Group:
    """Bins that are alike in their leaves: block sizes, free leaves, and which bins (a mask)."""

    sizes: Sizes
    free: int
    members: int
    count: int = field(init=False)

    def __post_init__(self) -> None:
        self.count = self.free.bit_count()

    def holds(self, gpus: int, level: int) -> int:
        """How many tasks of so many GPUs find cells of at most this level in one bin; any number without GPUs."""
        return holds(self.sizes, self.free, gpus, level) if gpus else UNLIMITED


class Bins:
    """Where the tasks of one search may go; `kind` says which demands a bin takes, by chain or SKU.

    `warm` bins are taken first among equals.
    """

    limited = False
    """Whether CPU and memory differ from bin to bin."""

    def __init__(self, groups: list[Group], warm: int = 0) -> None:
        self.groups = groups
        self.warm = warm

    def room(self, number: int, free: int) -> FreeResources:
        """What the bin of this number, with so many free leaves, has left."""
        return FreeResources(free, UNLIMITED, UNLIMITED, 0, 0)

    def takes(self, demand: Demand) -> int:
        """The bins that tasks of this demand may go to."""
        return -1


def find(bins: Bins, parts: Sequence[Demand]) -> list[Fill] | None:
    """Bins for all tasks of all demands at once, or None.

    Equal tasks: found whenever it exists, in the smallest cells with which it does, there in the fewest bins.
    Unequal tasks: first all in one bin, then bin by bin the one that takes most of what is left, again in the
    smallest cells with which that succeeds; then exhaustively within SEARCH_STEPS.
    """
    if len(parts) == 1:
        demand = parts[0]
        return _find_one(bins, demand) if demand.count == 1 else _find_equal(bins, demand)
    if _too_few(bins, parts):
        return None
    pool = _Pool(bins, parts)
    return pool.closely() or pool.search()


def _find_one(bins: Bins, demand: Demand) -> list[Fill] | None:
    allowed = bins.takes(demand)
    best: tuple[tuple[int, tuple[int, ...]], int, int] | None = None
    for group in bins.groups:
        members = group.members & allowed
        if group.count < demand.gpus or not members:
            continue
        found = pick(group.sizes, group.free, demand.gpus) if demand.gpus else None
        rank = (found.level, found.fit) if found else (0, (group.count,))
        if best is not None and rank > best[0]:
            continue
        number, cold = _first_with_room(bins, members, group.count, demand)
        if number >= 0 and (best is None or (rank, cold, number) < best):
            best = (rank, cold, number)
    return None if best is None else [Fill(best[2], demand, 1)]


def _first_with_room(bins: Bins, members: int, free: int, demand: Demand) -> tuple[int, int]:
    """The first member that takes a task, a warm one if there is; (-1, 0) when none does."""
    for cold, part in enumerate((members & bins.warm, members & ~bins.warm)):
        if not bins.limited:
            if part:
                return (part & -part).bit_length() - 1, cold
            continue
        for number in bits(part):
            if bins.room(number, free).capacity(demand, 1):
                return number, cold
    return -1, 0


def _find_equal(bins: Bins, demand: Demand) -> list[Fill] | None:
    allowed = bins.takes(demand)
    groups = [group for group in bins.groups if group.members & allowed and group.count >= demand.gpus]
    if sum(group.count * (group.members & allowed).bit_count() for group in groups) < demand.gpus * demand.count:
        return None
    for level in _levels(groups, demand.gpus):
        found = _at_level(bins, demand, groups, allowed, level)
        if found is not None:
            return found
    return None


def _levels(groups: Sequence[Group], gpus: int) -> range:
    """Levels of the cells that may hold one task, from the smallest that has as many leaves at all."""
    shapes = {group.sizes for group in groups}
    if gpus <= 1 or not shapes:
        return range(1)
    return range(min(best_level(sizes, gpus) for sizes in shapes), max(map(len, shapes)))


def _at_level(bins: Bins, demand: Demand, groups: list[Group], allowed: int, level: int) -> list[Fill] | None:
    """Equal tasks, each in a cell of at most this level: all in the smallest bin, else over several."""
    most: dict[tuple[int, int, int], int] = {}
    for group in groups:
        kind = (group.count, group.sizes[-1], min(demand.count, group.holds(demand.gpus, level)))
        most[kind] = most.get(kind, 0) | group.members & allowed
    if sum(count * members.bit_count() for (_, _, count), members in most.items()) < demand.count:
        return None
    for (free, _, count), members in sorted(most.items()):
        for number in bits(members) if count == demand.count else ():
            if bins.room(number, free).capacity(demand, count) == count:
                return [Fill(number, demand, count)]
    return _spread(bins, demand, most)


def _spread(bins: Bins, demand: Demand, most: dict[tuple[int, int, int], int]) -> list[Fill] | None:
    """Equal tasks over several bins: those that take most first, the last one as small as it may be. `most` has the
    bins by free leaves, size and how many tasks they take at most."""
    roomy = []
    for (free, size, count), members in most.items():
        for number in bits(members) if count else ():
            capacity = bins.room(number, free).capacity(demand, count)
            if capacity:
                roomy.append((-capacity, (free, size), number))
    roomy.sort()
    fills: list[Fill] = []
    left = demand.count
    for place, (less, _, number) in enumerate(roomy):
        if -less >= left:
            tightest = max(one[0] for one in roomy[place:] if -one[0] >= left)
            smallest = min((one for one in roomy[place:] if one[0] == tightest), key=lambda one: one[1:])
            return [*fills, Fill(smallest[2], demand, left)]
        fills.append(Fill(number, demand, -less))
        left += less
    return None


def _too_few(bins: Bins, parts: Sequence[Demand]) -> bool:
    """Whether the leaves cannot do, by counts: in pieces of n leaves, the bins have fewer than the tasks need.

    A bin of h leaves has h // n pieces and a task of g takes at least g // n of them, for every n.
    """
    for cell_type in {demand.cell_type for demand in parts if demand.gpus}:
        alike = [demand for demand in parts if demand.cell_type == cell_type]
        allowed = bins.takes(alike[0])
        for piece in {1, *(demand.gpus for demand in alike)}:
            needed = sum(demand.gpus // piece * demand.count for demand in alike)
            there = sum(group.count // piece * (group.members & allowed).bit_count() for group in bins.groups)
            if there < needed:
                return True
    return False


class Sort(NamedTuple):
    """Bins that are one choice: the same demands may go there (`kinds`, a mask), they have the same room and the same
    free leaves in cells of the same sizes."""

    kinds: int
    room: FreeResources
    sizes: Sizes
    free: int

    def fill(self, parts: Sequence[Demand], counts: Sequence[int], beyond: int) -> tuple[int, ...]:
        """How many of each demand's remaining tasks one such bin takes, the largest first: each in a cell at most
        `beyond` levels above the smallest that could hold it."""
        room, free, taken = self.room, self.free, []
        for demand, left in zip(parts, counts, strict=True):
            count = room.capacity(demand, left) if left else 0
            if demand.gpus:
                count, free = self._closely(demand.gpus, count, free, beyond)
            if count:
                room = room.less(demand, count)
            taken.append(count)
        return tuple(taken)

    def _closely(self, gpus: int, count: int, free: int, beyond: int) -> tuple[int, int]:
        """How many of so many equal tasks find such cells, and the leaves that are left then."""
        highest = best_level(self.sizes, gpus) + beyond
        for done in range(count):
            found = pick(self.sizes, free, gpus)
            if found is None or found.level > highest:
                return done, free
            free &= ~found.bits
        return count, free


class _Pool:
    """Bins for unequal tasks; of those of one sort the first by number is taken."""

    def __init__(self, bins: Bins, parts: Sequence[Demand]) -> None:
        self.parts = parts
        self.alike: dict[Sort, list[int]] = {}
        masks = [bins.takes(demand) for demand in parts]
        for group in bins.groups:
            for number in bits(group.members):
                kinds = sum(1 << kind for kind, mask in enumerate(masks) if mask >> number & 1)
                if kinds:
                    flat = len(group.sizes) < 3  # which leaves are free is all the same there
                    free = (1 << group.count) - 1 if flat else group.free
                    sort = Sort(kinds, bins.room(number, group.count), group.sizes, free)
                    self.alike.setdefault(sort, []).append(number)
        for numbers in self.alike.values():
            numbers.sort()

    def closely(self) -> list[Fill] | None:
        """All tasks in as small cells as that succeeds with: on one bin, else on few."""
        most = max((len(sort.sizes) for sort in self.alike), default=0)
        if self.on_one(most) is None and self.greedily(most) is None:
            return None
        tries = (way(beyond) for beyond in range(most + 1) for way in (self.on_one, self.greedily))
        return next((found for found in tries if found is not None), None)

    def on_one(self, beyond: int) -> list[Fill] | None:
        """All tasks in one bin, the smallest that holds them."""
        counts = tuple(demand.count for demand in self.parts)
        every = (1 << len(self.parts)) - 1
        fitting = [
            (sort.room.gpus, numbers[0])
            for sort, numbers in self.alike.items()
            if sort.kinds == every and sort.fill(self.parts, counts, beyond) == counts
        ]
        return [Fill(min(fitting)[1], demand, demand.count) for demand in self.parts] if fitting else None

    def greedily(self, beyond: int) -> list[Fill] | None:
        """Bin by bin the one that takes most GPUs of what is left, then most tasks, then the smallest."""
        alike = {sort: numbers[::-1] for sort, numbers in self.alike.items()}
        left = [demand.count for demand in self.parts]
        fills: list[Fill] = []
        while any(left):
            choices = [
                (*self._worth(sort, left, beyond), sort.room.gpus, numbers[-1], sort) for sort, numbers in alike.items()
            ]
            _, tasks, taken, _, number, sort = min(choices, key=lambda one: (one[:2], one[3:5]), default=_NOTHING)
            if not tasks:
                return None
            alike[sort].pop()
            if not alike[sort]:
                del alike[sort]
            fills += [Fill(number, demand, count) for demand, count in zip(self.parts, taken, strict=True) if count]
            left = [count - less for count, less in zip(left, taken, strict=True)]
        return fills

    def _worth(self, sort: Sort, left: Sequence[int], beyond: int) -> tuple[int, int, tuple[int, ...]]:
        """What a bin of this sort would take: GPUs and tasks (less is more), and how many of each demand."""
        here = [count if sort.kinds >> kind & 1 else 0 for kind, count in enumerate(left)]
        taken = sort.fill(self.parts, here, beyond)
        gpus = sum(demand.gpus * count for demand, count in zip(self.parts, taken, strict=True))
        return -gpus, -sum(taken), taken

    def search(self) -> list[Fill] | None:
        """Some placement, if the bounds of the search allow to find one."""
        alike: dict[tuple[int, FreeResources], list[int]] = {}
        for sort, numbers in self.alike.items():
            alike.setdefault((sort.kinds, sort.room), []).extend(numbers)
        for numbers in alike.values():
            numbers.sort()
        return _Search(self.parts, alike).run()


_NOTHING: tuple[int, int, tuple[int, ...], int, int, Sort] = (
    0,
    0,
    (),
    0,
    0,
    Sort(0, FreeResources(0, 0, 0, 0, 0), (1,), 0),
)


class _Search:
    """Task by task, the largest first, into bins of every sort, the tightest first, with steps back."""

    def __init__(self, parts: Sequence[Demand], alike: dict[tuple[int, FreeResources], list[int]]) -> None:
        self.tasks = [(kind, demand) for kind, demand in enumerate(parts) for _ in range(demand.count)]
        self.alike = {key: numbers.copy() for key, numbers in alike.items()}
        self.chosen: list[int] = []
        self.steps = 0

    def run(self) -> list[Fill] | None:
        if len(self.tasks) > SEARCH_TASKS or not self._place(0):
            return None
        counts: dict[tuple[int, int], int] = {}
        for (kind, _), number in zip(self.tasks, self.chosen, strict=True):
            counts[kind, number] = counts.get((kind, number), 0) + 1
        demands = dict(self.tasks)
        return [Fill(number, demands[kind], count) for (kind, number), count in counts.items()]

    def _place(self, depth: int) -> bool:
        if depth == len(self.tasks):
            return True
        kind, demand = self.tasks[depth]
        choices = [
            (room.gpus, numbers[0], kinds, room)
            for (kinds, room), numbers in self.alike.items()
            if kinds >> kind & 1 and room.capacity(demand, 1)
        ]
        for _, number, kinds, room in sorted(choices, key=lambda choice: choice[:2]):
            self.steps += 1
            if self.steps > SEARCH_STEPS:
                return False
            self._take(kinds, room, number)
            self._put(kinds, room.less(demand, 1), number)
            self.chosen.append(number)
            if self._place(depth + 1):
                return True
            self.chosen.pop()
            self._take(kinds, room.less(demand, 1), number)
            self._put(kinds, room, number)
        return False

    def _put(self, kinds: int, room: FreeResources, number: int) -> None:
        insort(self.alike.setdefault((kinds, room), []), number)

    def _take(self, kinds: int, room: FreeResources, number: int) -> None:
        numbers = self.alike[kinds, room]
        numbers.remove(number)
        if not numbers:
            del self.alike[kinds, room]


def holes(groups: list[Group]) -> Iterator[tuple[int, int]]:
    """The bins with their number of free leaves, largest first: (leaves, bin)."""
    for group in sorted(groups, key=lambda one: -one.count):
        for number in bits(group.members):
            yield group.count, number
