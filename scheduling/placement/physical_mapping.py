"""Maps virtual leaves to physical ones: which hardware a job's quota cells are bound to.

The virtual leaves are fixed; here only hardware is chosen: cells in service, split as little as safety allows
(buddy allocation), with the fewest borrowed leaves, so that as little as possible is taken back. HiveD maps its
virtual placement in the same way.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from scheduling.cells.cell_index import Quota
from scheduling.cells.resources import Demand
from scheduling.model.job import TaskPlacement
from scheduling.placement.attempt import IdleNodes, PlacementAttempt, Task
from scheduling.placement.bin_packing import Fill, find
from scheduling.placement.physical_candidates import PhysicalCandidates, both, done
from scheduling.placement.single_leaf_quota import place_loose
from scheduling.placement.virtual_placement import VirtualPlacement


class PhysicalMapping(NamedTuple):
    """Where the tasks go, and which running tasks must leave."""

    placements: tuple[TaskPlacement, ...]
    taken: frozenset[Task]


class Blocked(NamedTuple):
    """No hardware for these cell nodes (a mask); 0 where no other choice of virtual leaves would help."""

    cells: int


def map_to_hardware(
    placing: PlacementAttempt, assignments: list[VirtualPlacement], others: tuple[Demand, ...]
) -> PhysicalMapping | Blocked:
    """Hardware for all assignments and for the tasks without GPUs (`others`); the allocator is left as it was."""
    placing.allocator.begin()
    try:
        return _map_one(placing, assignments[0]) if placing.alone else _map(placing, assignments, others)
    finally:
        placing.allocator.rollback()


def _map_one(placing: PlacementAttempt, assignment: VirtualPlacement) -> PhysicalMapping | Blocked:
    """The only assignment: nothing comes after it, so the first hardware that will do is the answer."""
    layout = placing.allocator.layout
    quota = layout.quotas[layout.cell_quota[assignment.cell]]
    placed = (
        place_loose(placing, quota, [assignment])
        if quota.loose
        else PhysicalCandidates(placing, quota).place_one(assignment)
    )
    if not placed:
        return Blocked(1 << assignment.cell)
    return PhysicalMapping((placing.placement(assignment),), frozenset(placing.taken))


def _map(
    placing: PlacementAttempt, assignments: list[VirtualPlacement], others: tuple[Demand, ...]
) -> PhysicalMapping | Blocked:
    found = _placed(placing, assignments)
    if not isinstance(found, list):
        return found
    more = placing.without_gpus(others) if others else []
    if more is None:
        again = _sharing(placing, assignments, others) if assignments else None
        if again is None:
            return Blocked(0)
        found, more = again
    return PhysicalMapping((*found, *more), frozenset(placing.taken))


def _placed(placing: PlacementAttempt, assignments: list[VirtualPlacement]) -> list[TaskPlacement] | Blocked:
    """Places for the tasks with GPUs."""
    layout = placing.allocator.layout
    by_quota: dict[int, list[VirtualPlacement]] = {}
    for assignment in assignments:
        by_quota.setdefault(layout.cell_quota[assignment.cell], []).append(assignment)
    quotas = [layout.quotas[one] for one in by_quota]
    quotas.sort(key=lambda one: (one.loose, -one.leaves, one.number))
    way = _Way(placing, [(quota, by_quota[quota.number]) for quota in quotas])
    if not placing.attempt(way.straight) and not placing.attempt(way.searched):
        return Blocked(
            sum(1 << cell for cell in {assignment.cell for assignment in by_quota[quotas[way.failed].number]})
        )
    return [placing.placement(assignment) for assignment in assignments]


def _sharing(
    placing: PlacementAttempt, assignments: list[VirtualPlacement], others: tuple[Demand, ...]
) -> tuple[list[TaskPlacement], list[TaskPlacement]] | None:
    """Places for all, where those with GPUs took the CPU or memory that the others need: as many on each node as idle
    GPUs, CPU and memory have room for together with the others."""
    placing.allocator.rollback()
    placing.allocator.begin()
    placing.forget()
    parts = tuple({id(assignment.demand): assignment.demand for assignment in assignments}.values())
    fills = find(IdleNodes(placing, -1), (*parts, *others))
    found = _node_by_node(placing, assignments, fills) if fills is not None else None
    more = placing.without_gpus(others) if found is not None else None
    return (found, more) if found is not None and more is not None else None


def _node_by_node(
    placing: PlacementAttempt, assignments: list[VirtualPlacement], fills: list[Fill]
) -> list[TaskPlacement] | None:
    """As many tasks on each node as the fills say."""
    left: dict[int, list[VirtualPlacement]] = {}
    for assignment in reversed(assignments):
        left.setdefault(id(assignment.demand), []).append(assignment)
    places: list[TaskPlacement] = []
    allowed = placing.allowed
    for fill in fills:
        mine = [left[id(fill.demand)].pop() for _ in range(fill.count)] if fill.demand.gpus else []
        placing.allowed = 1 << fill.bin
        found = _placed(placing, mine)
        placing.allowed = allowed
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

    def __init__(self, placing: PlacementAttempt, plan: list[tuple[Quota, list[VirtualPlacement]]]) -> None:
        self.placing = placing
        self.plan = plan
        self.failed = 0
        self._steps = SEARCHED_STEPS

    def straight(self) -> bool:
        """The first hardware for each; `failed` is then the number of the cell that found none."""
        for place, (quota, assignments) in enumerate(self.plan):
            if not self._place(quota, assignments, done):
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

    def _place(self, quota: Quota, assignments: list[VirtualPlacement], then: Callable[[], bool]) -> bool:
        if quota.loose:
            return self.placing.attempt(partial(both, partial(place_loose, self.placing, quota, assignments), then))
        return PhysicalCandidates(self.placing, quota).place(assignments, then)
