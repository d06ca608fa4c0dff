"""Finding nodes and GPUs for tasks: the fewest nodes for a gang, the smallest sufficient hole.

`find` answers with counts of tasks per node, `bind` turns them into leaf cells and virtual cells.
"""

from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduling.jobs import Job, LeafUse, Standing, TaskPlacement
from scheduling.ledger import Ledger, bits
from scheduling.resources import Demand, Room

SEARCH_STEPS = 5_000
SEARCH_TASKS = 200
"""Bounds of the exhaustive search for gangs of unequal tasks; beyond them the gang counts as not fitting."""


@dataclass(frozen=True, slots=True)
class Spot:
    """`count` tasks of a demand on the node of this number."""

    node: int
    demand: Demand
    count: int


def eligible(ledger: Ledger, demand: Demand, allowed: int) -> int:
    """Nodes, of those allowed, that are open and of the kind the demand names."""
    layout = ledger.layout
    nodes = ledger.open_nodes & allowed
    if demand.gpus:
        return nodes & layout.nodes_of_type.get(demand.cell_type, 0)
    if demand.node_sku is not None:
        return nodes & layout.nodes_of_sku.get(demand.node_sku, 0)
    return nodes


def find(ledger: Ledger, parts: tuple[Demand, ...], allowed: int) -> list[Spot] | None:
    """Nodes for all tasks of all demands at once, or None.

    Equal tasks: found whenever it exists, on the fewest nodes. Unequal tasks: first all on one node, then
    node by node the one that takes most of what is left, then exhaustively within SEARCH_STEPS.
    """
    if len(parts) == 1:
        return _find_equal(ledger, parts[0], allowed)
    if _too_few_holes(ledger, parts, allowed):
        return None
    pool = _Pool(ledger, parts, allowed)
    return pool.on_one() or pool.greedily() or pool.search()


def _too_few_holes(ledger: Ledger, parts: tuple[Demand, ...], allowed: int) -> bool:
    """Whether the GPUs cannot do, by counts: in pieces of n GPUs, the holes have fewer than the tasks need.

    A hole of h GPUs has h // n pieces and a task of g takes at least g // n of them, for every n.
    """
    for cell_type in {demand.cell_type for demand in parts if demand.gpus}:
        alike = [demand for demand in parts if demand.cell_type == cell_type]
        nodes = eligible(ledger, alike[0], allowed)
        for piece in {1, *(demand.gpus for demand in alike)}:
            needed = sum(demand.gpus // piece * demand.count for demand in alike)
            there = sum(size // piece * (mask & nodes).bit_count() for size, mask in enumerate(ledger.holes))
            if there < needed:
                return True
    return False


def _snuggest(ledger: Ledger, nodes: int, gpus: int) -> Iterator[int]:
    """Nodes with at least `gpus` free GPUs, smallest hole first; nodes that have no GPUs at all come first."""
    without = ledger.layout.nodes_of_type.get("", 0) & nodes
    if not gpus:
        yield from bits(without)
    for mask in ledger.holes[gpus:]:
        yield from bits(mask & nodes & ~without)


def _find_equal(ledger: Ledger, demand: Demand, allowed: int) -> list[Spot] | None:
    nodes = eligible(ledger, demand, allowed)
    whole = demand.gpus * demand.count
    if ledger.free_gpus(nodes) < whole:
        return None
    for number in _snuggest(ledger, nodes, whole):
        if ledger.room(number).capacity(demand, demand.count) == demand.count:
            return [Spot(number, demand, demand.count)]
    return _spread(ledger, demand, nodes) if demand.count > 1 else None


def _spread(ledger: Ledger, demand: Demand, nodes: int) -> list[Spot] | None:
    """Equal tasks over several nodes: those that take most first, the last one as small as it may be."""
    order = _snuggest(ledger, nodes, demand.gpus)
    roomy = [(ledger.room(number).capacity(demand, demand.count), rank, number) for rank, number in enumerate(order)]
    roomy = sorted((one for one in roomy if one[0]), key=lambda one: (-one[0], one[1]))
    spots: list[Spot] = []
    left = demand.count
    for place, (count, _, number) in enumerate(roomy):
        if count >= left:
            tightest = min(one for one in roomy[place:] if one[0] >= left)
            return [*spots, Spot(tightest[2], demand, left)]
        spots.append(Spot(number, demand, count))
        left -= count
    return None


def _fill(room: Room, parts: tuple[Demand, ...], counts: Sequence[int]) -> tuple[int, ...]:
    """How many of each demand's remaining tasks one node takes, the largest first."""
    taken = []
    for demand, left in zip(parts, counts, strict=True):
        count = room.capacity(demand, left) if left else 0
        if count:
            room = room.less(demand, count)
        taken.append(count)
    return tuple(taken)


class _Pool:
    """Nodes for unequal tasks. Nodes alike are one choice: the same demands may go there (`kinds`, a mask),
    and they have the same room; of these the first by number is taken.
    """

    def __init__(self, ledger: Ledger, parts: tuple[Demand, ...], allowed: int) -> None:
        self.parts = parts
        self.alike: dict[tuple[int, Room], list[int]] = {}
        masks = [eligible(ledger, demand, allowed) for demand in parts]
        for number in range(len(ledger.layout.nodes)):
            kinds = sum(1 << kind for kind, mask in enumerate(masks) if mask >> number & 1)
            if kinds:
                self.alike.setdefault((kinds, ledger.room(number)), []).append(number)

    def on_one(self) -> list[Spot] | None:
        """All tasks on one node, the smallest hole that holds them."""
        counts = tuple(demand.count for demand in self.parts)
        every = (1 << len(self.parts)) - 1
        fitting = [
            (room.gpus, nodes[0])
            for (kinds, room), nodes in self.alike.items()
            if kinds == every and _fill(room, self.parts, counts) == counts
        ]
        return [Spot(min(fitting)[1], demand, demand.count) for demand in self.parts] if fitting else None

    def greedily(self) -> list[Spot] | None:
        """Node by node the one that takes most GPUs of what is left, then most tasks, then the smallest hole."""
        alike = {key: nodes[::-1] for key, nodes in self.alike.items()}
        left = [demand.count for demand in self.parts]
        spots: list[Spot] = []
        while any(left):
            choices = [(*self._worth(key, left), key[1].gpus, nodes[-1], key) for key, nodes in alike.items()]
            gpus, tasks, taken, _, number, key = min(choices, key=lambda one: (one[:2], one[3:5]), default=_NOTHING)
            if not tasks:
                return None
            alike[key].pop()
            if not alike[key]:
                del alike[key]
            spots += [Spot(number, demand, count) for demand, count in zip(self.parts, taken, strict=True) if count]
            left = [count - less for count, less in zip(left, taken, strict=True)]
        return spots

    def _worth(self, key: tuple[int, Room], left: Sequence[int]) -> tuple[int, int, tuple[int, ...]]:
        """What a node of this sort would take: GPUs and tasks (less is more), and how many of each demand."""
        kinds, room = key
        here = [count if kinds >> kind & 1 else 0 for kind, count in enumerate(left)]
        taken = _fill(room, self.parts, here)
        gpus = sum(demand.gpus * count for demand, count in zip(self.parts, taken, strict=True))
        return -gpus, -sum(taken), taken

    def search(self) -> list[Spot] | None:
        """Some placement, if the bounds of the search allow to find one."""
        return _Search(self.parts, self.alike).run()


_NOTHING = (0, 0, (), 0, 0, (0, Room(0, 0, 0, 0, 0)))


class _Search:
    """Depth-first over the tasks, largest first, each into the smallest hole first, within bounds.

    Without the bounds it would find every placement there is. Uses up the pool it is given.
    """

    def __init__(self, parts: tuple[Demand, ...], alike: dict[tuple[int, Room], list[int]]) -> None:
        self.tasks = [(kind, demand) for kind, demand in enumerate(parts) for _ in demand.tasks]
        self.chosen: list[int] = []
        self.steps = 0
        self.alike = alike

    def run(self) -> list[Spot] | None:
        if len(self.tasks) > SEARCH_TASKS or not self._place(0):
            return None
        counts: dict[tuple[int, int], int] = {}
        demands = dict(self.tasks)
        for (kind, _), number in zip(self.tasks, self.chosen, strict=True):
            counts[kind, number] = counts.get((kind, number), 0) + 1
        return [Spot(number, demands[kind], count) for (kind, number), count in counts.items()]

    def _put(self, kinds: int, room: Room, number: int) -> None:
        insort(self.alike.setdefault((kinds, room), []), number)

    def _take(self, kinds: int, room: Room, number: int) -> None:
        nodes = self.alike[kinds, room]
        nodes.remove(number)
        if not nodes:
            del self.alike[kinds, room]

    def _place(self, depth: int) -> bool:
        if depth == len(self.tasks):
            return True
        kind, demand = self.tasks[depth]
        choices = [
            (room.gpus, nodes[0], kinds, room)
            for (kinds, room), nodes in self.alike.items()
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


def bind(ledger: Ledger, job: Job, spots: list[Spot]) -> tuple[TaskPlacement, ...]:
    """Tasks to leaf cells, lowest GPU first, and to the lowest free virtual cells; changes nothing."""
    free: dict[int, Iterator[int]] = {}
    virtual: dict[str, Iterator[str]] = {}
    tasks = {id(spot.demand): iter(spot.demand.tasks) for spot in spots}
    needs: dict[str, int] = {}
    for spot in spots:
        free.setdefault(spot.node, bits(ledger.free_mask(spot.node)))
        kind = spot.demand.cell_type
        needs[kind] = needs.get(kind, 0) + spot.count * spot.demand.gpus
    if not job.opportunistic:
        virtual = {kind: iter(ledger.take_virtual(job.vc, kind, count)) for kind, count in needs.items()}
    placed = []
    for spot in spots:
        for _ in range(spot.count):
            role, index = next(tasks[id(spot.demand)])
            leaves = _leaves(ledger, spot, free[spot.node], virtual.get(spot.demand.cell_type))
            node = ledger.layout.nodes[spot.node].id
            placed.append(TaskPlacement(role, index, node, leaves, spot.demand.cpu_milli, spot.demand.memory_mb))
    return tuple(placed)


def _leaves(ledger: Ledger, spot: Spot, free: Iterator[int], virtual: Iterator[str] | None) -> tuple[LeafUse, ...]:
    ids = ledger.layout.leaf_ids[spot.node]
    standing = Standing.BORROWED if virtual is None else Standing.GUARANTEED
    return tuple(
        LeafUse(ids[next(free)], None if virtual is None else next(virtual), standing) for _ in range(spot.demand.gpus)
    )
