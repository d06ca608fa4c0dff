"""From virtual leaves to physical ones: which hardware a job's quota cells lie on.

The virtual leaves are fixed; here only hardware is chosen: cells in service, split as little as safety allows
(buddy allocation), with the fewest borrowed leaves, so that as little as possible is taken back. HiveD maps its
virtual placement in the same way.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from scheduling.ground import Ground, Idle, Task
from scheduling.hardware import Hardware, both, done
from scheduling.jobs import TaskPlacement
from scheduling.layout import Quota
from scheduling.loose import place_loose
from scheduling.resources import Demand
from scheduling.search import Fill, find
from scheduling.virtual import Seat


class Mapped(NamedTuple):
    """Where the tasks go, and which running tasks must leave."""

    placements: tuple[TaskPlacement, ...]
    taken: frozenset[Task]


class Blocked(NamedTuple):
    """No hardware for these cell nodes (a mask); 0 where no other choice of virtual leaves would help."""

    cells: int


def map_seats(ground: Ground, seats: list[Seat], others: tuple[Demand, ...]) -> Mapped | Blocked:
    """Hardware for all seats and for the tasks without GPUs (`others`); the ledger is left as it was."""
    ground.ledger.begin()
    try:
        return _map_one(ground, seats[0]) if ground.alone else _map(ground, seats, others)
    finally:
        ground.ledger.take_back()


def _map_one(ground: Ground, seat: Seat) -> Mapped | Blocked:
    """The only seat: nothing comes after it, so the first hardware that will do is the answer."""
    layout = ground.ledger.layout
    quota = layout.quotas[layout.cell_quota[seat.cell]]
    placed = place_loose(ground, quota, [seat]) if quota.loose else Hardware(ground, quota).place_one(seat)
    if not placed:
        return Blocked(1 << seat.cell)
    return Mapped((ground.placement(seat),), frozenset(ground.taken))


def _map(ground: Ground, seats: list[Seat], others: tuple[Demand, ...]) -> Mapped | Blocked:
    found = _seated(ground, seats)
    if not isinstance(found, list):
        return found
    more = ground.without_gpus(others) if others else []
    if more is None:
        again = _sharing(ground, seats, others) if seats else None
        if again is None:
            return Blocked(0)
        found, more = again
    return Mapped((*found, *more), frozenset(ground.taken))


def _seated(ground: Ground, seats: list[Seat]) -> list[TaskPlacement] | Blocked:
    """Places for the tasks with GPUs."""
    layout = ground.ledger.layout
    by_quota: dict[int, list[Seat]] = {}
    for seat in seats:
        by_quota.setdefault(layout.cell_quota[seat.cell], []).append(seat)
    quotas = [layout.quotas[one] for one in by_quota]
    if not layout.policy.hived:
        quotas.sort(key=lambda one: (one.loose, -one.leaves, one.number))
    way = _Way(ground, [(quota, by_quota[quota.number]) for quota in quotas])
    if not ground.attempt(way.straight) and not ground.attempt(way.searched):
        return Blocked(sum(1 << cell for cell in {seat.cell for seat in by_quota[quotas[way.failed].number]}))
    return [ground.placement(seat) for seat in seats]


def _sharing(
    ground: Ground, seats: list[Seat], others: tuple[Demand, ...]
) -> tuple[list[TaskPlacement], list[TaskPlacement]] | None:
    """Places for all, where those with GPUs took the CPU or memory that the others need: as many on each node as idle
    GPUs, CPU and memory have room for together with the others."""
    ground.ledger.take_back()
    ground.ledger.begin()
    ground.forget()
    parts = tuple({id(seat.demand): seat.demand for seat in seats}.values())
    fills = find(Idle(ground, -1), (*parts, *others))
    found = _node_by_node(ground, seats, fills) if fills is not None else None
    more = ground.without_gpus(others) if found is not None else None
    return (found, more) if found is not None and more is not None else None


def _node_by_node(ground: Ground, seats: list[Seat], fills: list[Fill]) -> list[TaskPlacement] | None:
    """As many tasks on each node as the fills say."""
    left: dict[int, list[Seat]] = {}
    for seat in reversed(seats):
        left.setdefault(id(seat.demand), []).append(seat)
    places: list[TaskPlacement] = []
    allowed = ground.allowed
    for fill in fills:
        mine = [left[id(fill.demand)].pop() for _ in range(fill.count)] if fill.demand.gpus else []
        ground.allowed = 1 << fill.bin
        found = _seated(ground, mine)
        ground.allowed = allowed
        if not isinstance(found, list):
            return None
        places += found
    return places


SEARCHED_CELLS = 16
SEARCHED_STEPS = 64
"""Bounds of the search for hardware for several quota cells at once: how many, and how many dead ends."""


class _Way:
    """Hardware for several quota cells, one after the other. What one takes can leave too little for another (the
    only rack without a fault, say): then other hardware is tried for those before it, within bounds.
    """

    def __init__(self, ground: Ground, plan: list[tuple[Quota, list[Seat]]]) -> None:
        self.ground = ground
        self.plan = plan
        self.failed = 0
        self._steps = SEARCHED_STEPS

    def straight(self) -> bool:
        """The first hardware for each; `failed` is then the number of the cell that found none."""
        for place, (quota, seats) in enumerate(self.plan):
            if not self._place(quota, seats, done):
                self.failed = place
                return False
        return True

    def searched(self) -> bool:
        """Any hardware for all."""
        return self.failed > 0 and len(self.plan) <= SEARCHED_CELLS and self._from(0)

    def _from(self, place: int) -> bool:
        if place == len(self.plan):
            return True
        self._steps -= 1
        return self._steps >= 0 and self._place(*self.plan[place], partial(self._from, place + 1))

    def _place(self, quota: Quota, seats: list[Seat], then: Callable[[], bool]) -> bool:
        if quota.loose:
            return self.ground.attempt(partial(both, partial(place_loose, self.ground, quota, seats), then))
        return Hardware(self.ground, quota).place(seats, then)
