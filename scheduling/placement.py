"""Finding nodes and GPUs for tasks: the fewest nodes for a gang, the smallest sufficient hole.

`find` answers with counts of tasks per node, `bind` turns them into leaf cells and virtual cells.
"""

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass

from scheduling.jobs import Job, LeafUse, Standing, TaskPlacement
from scheduling.ledger import Ledger, bits
from scheduling.resources import Demand, Room, gpus_by_type

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
    for cell_type, gpus in gpus_by_type(parts).items():
        kind = ledger.layout.nodes_of_type.get(cell_type, 0)
        if ledger.free_gpus(kind & ledger.open_nodes & allowed) < gpus:
            return None
    return (
        _find_on_one(ledger, parts, allowed)
        or _find_greedily(ledger, parts, allowed)
        or _Search(ledger, parts, allowed).run()
    )


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


def _fill(room: Room, parts: tuple[Demand, ...], counts: tuple[int, ...]) -> tuple[int, ...]:
    """How many of each demand's remaining tasks one node takes, the largest first."""
    taken = []
    for demand, left in zip(parts, counts, strict=True):
        count = room.capacity(demand, left) if left else 0
        room = room.less(demand, count)
        taken.append(count)
    return tuple(taken)


def _find_on_one(ledger: Ledger, parts: tuple[Demand, ...], allowed: int) -> list[Spot] | None:
    nodes = ledger.layout.all_nodes()
    for demand in parts:
        nodes &= eligible(ledger, demand, allowed)
    counts = tuple(demand.count for demand in parts)
    for number in _snuggest(ledger, nodes, sum(demand.gpus * demand.count for demand in parts)):
        if _fill(ledger.room(number), parts, counts) == counts:
            return [Spot(number, demand, demand.count) for demand in parts]
    return None


def _find_greedily(ledger: Ledger, parts: tuple[Demand, ...], allowed: int) -> list[Spot] | None:
    masks = [eligible(ledger, demand, allowed) for demand in parts]
    unused = 0
    for mask in masks:
        unused |= mask
    left = tuple(demand.count for demand in parts)
    spots: list[Spot] = []
    while any(left):
        best: tuple[int, int, int] | None = None
        best_taken: tuple[int, ...] = ()
        for rank, number in enumerate(_snuggest(ledger, unused, 0)):
            here = tuple(count if mask >> number & 1 else 0 for count, mask in zip(left, masks, strict=True))
            taken = _fill(ledger.room(number), parts, here)
            weight = sum(demand.gpus * count for demand, count in zip(parts, taken, strict=True))
            key = (-weight, -sum(taken), rank)
            if any(taken) and (best is None or key < best):
                best, best_taken, chosen = key, taken, number
        if best is None:
            return None
        spots += [Spot(chosen, demand, n) for demand, n in zip(parts, best_taken, strict=True) if n]
        left = tuple(count - n for count, n in zip(left, best_taken, strict=True))
        unused &= ~(1 << chosen)
    return spots


class _Search:
    """Depth-first over the tasks, largest first, each into the smallest hole first, within bounds.

    Nodes alike (the same demands may go there, the same room) are one choice. Without the bounds it would
    find every placement there is.
    """

    def __init__(self, ledger: Ledger, parts: tuple[Demand, ...], allowed: int) -> None:
        self.tasks = [(kind, demand) for kind, demand in enumerate(parts) for _ in demand.tasks]
        self.chosen: list[int] = []
        self.steps = 0
        self.alike: dict[tuple[int, Room], list[int]] = {}
        masks = [eligible(ledger, demand, allowed) for demand in parts]
        for number in range(len(ledger.layout.nodes)):
            kinds = sum(1 << kind for kind, mask in enumerate(masks) if mask >> number & 1)
            if kinds:
                self._put(kinds, ledger.room(number), number)

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
