"""What the quota of a virtual cluster holds at all, were all of it free: it may have been cut since a job came."""

from typing import Final

from scheduling.cells.allocator import Allocator
from scheduling.cells.request import JobShape, Pool, Unit
from scheduling.placement.virtual_placement import QuotaView, assign
from scheduling.preemption.victim_selection import fits, free_counts

LIMIT: Final = 8192
"""How many answers are remembered."""


class QuotaFeasibility:
    """Answers for jobs by their shapes, each worked out once; `idle` is the cluster without jobs."""

    def __init__(self, idle: Allocator) -> None:
        self._idle = idle
        self._choices: dict[tuple[int, int], bool] = {}
        self._shapes: dict[int, bool] = {}

    def choice(self, vc: str, shape: JobShape, number: int) -> bool:
        """Whether the first unit of this choice (of a gang: all that waits) finds virtual leaves."""
        key = shape.number, number
        if key not in self._choices:
            if len(self._choices) >= LIMIT:
                self._choices.clear()
            self._choices[key] = holds_unit(self._idle, vc, shape.choices[number].units[0])
        return self._choices[key]

    def shape(self, vc: str, shape: JobShape) -> bool:
        """Whether anything that starts by itself (all of a gang, else one task) finds virtual leaves, under some
        choice."""
        known = self._shapes.get(shape.number)
        if known is None:
            if len(self._shapes) >= LIMIT:
                self._shapes.clear()
            units = (unit.alone() for choice in shape.choices for unit in choice.units)
            known = self._shapes[shape.number] = any(holds_unit(self._idle, vc, unit) for unit in units)
        return known


def holds_unit(idle: Allocator, vc: str, unit: Unit) -> bool:
    """Whether all tasks of the unit together find virtual leaves."""
    return all(holds_pool(idle, vc, pool) for pool in unit.pools)


def holds_pool(idle: Allocator, vc: str, pool: Pool) -> bool:
    """The same for the tasks of one chain or pinned cell. Equal tasks are counted, not placed."""
    if len(pool.parts) == 1:
        return fits(pool, free_counts(idle, vc, pool.name, {}))
    return assign(QuotaView(idle, vc, pool.name), pool.parts) is not None
