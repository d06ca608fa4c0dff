"""Chooses victims inside a virtual cluster: whose virtual leaves a higher priority takes, and no more than it needs.

Tasks are counted, not placed: equal tasks fit exactly if the cells' free leaves, divided by what one task needs, are
enough of them.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from scheduling.cells.allocator import Allocator
from scheduling.cells.node_bits import bits
from scheduling.cells.request import Pool
from scheduling.model.job import Job
from scheduling.model.snapshot import Running
from scheduling.preemption.victim_cost import VictimCosts

Price = tuple[bool, int, int, int, str]
"""Sort key of candidates, smallest first: inside its minimum run time, priority, lost work (capped, in full), id."""

Item = TypeVar("Item", bound=Hashable)

Freed = Mapping[int, int]
"""Virtual leaves that would come free: a mask by cell node."""


class VictimCandidates:
    """The jobs with virtual leaves of one virtual cluster that may lose them, the cheapest first.

    `worth` returns a job's price and priority, None for a non-preemptible one. Kept in step with the allocator.
    """

    def __init__(self, allocator: Allocator, vc: str, worth: Callable[[str], tuple[Price, int] | None]) -> None:
        self._allocator = allocator
        self._vc = vc
        self._worth = worth
        found = {name: worth(name) for name in allocator.virtual_leaves_by_job[vc]}
        self._known = {name: one for name, one in found.items() if one is not None}
        self._order = sorted(self._known.values())
        self._below: dict[int, Freed] = {}
        self._counts: dict[tuple[str, int], Mapping[int, int]] = {}
        allocator.changed_jobs[vc] = set()

    def below(self, priority: int) -> list[str]:
        """Candidates of strictly lower priority, in order."""
        self._refresh()
        return [price[-1] for price, rank in self._order if rank < priority]

    def fits(self, pool: Pool, priority: int) -> bool:
        """Whether the pool's tasks, equal ones, would fit if all lower priorities were gone."""
        self._refresh()
        key = pool.name, priority
        if key not in self._counts:
            self._counts[key] = free_counts(self._allocator, self._vc, pool.name, self._freed_below(priority))
        return fits(pool, self._counts[key])

    def freed_below(self, priority: int) -> Freed:
        """The virtual leaves of all lower priorities."""
        self._refresh()
        return self._freed_below(priority)

    def _freed_below(self, priority: int) -> Freed:
        if priority not in self._below:
            names = (name for name, (_, rank) in self._known.items() if rank < priority)
            self._below[priority] = freed_by(self._allocator, self._vc, names)
        return self._below[priority]

    def _refresh(self) -> None:
        changed_jobs = self._allocator.changed_jobs[self._vc]
        if not changed_jobs:
            return
        for name in changed_jobs:
            before = self._known.pop(name, None)
            if before is not None:
                del self._order[bisect_left(self._order, before)]
            now = self._worth(name) if name in self._allocator.virtual_leaves_by_job[self._vc] else None
            if now is not None:
                self._known[name] = now
                insort(self._order, now)
        changed_jobs.clear()
        self._below.clear()
        self._counts.clear()


def freed_by(allocator: Allocator, vc: str, names: Iterable[str]) -> Freed:
    """The virtual leaves of these jobs."""
    freed: dict[int, int] = {}
    holding = allocator.virtual_leaves_by_job[vc]
    for name in names:
        for cell, mask in holding.get(name, {}).items():
            freed[cell] = freed.get(cell, 0) | mask
    return freed


def fits(pool: Pool, counts: Mapping[int, int]) -> bool:
    """Whether the pool's tasks, equal ones, fit; `counts`: cells by how many free leaves they have."""
    (part,) = pool.parts
    return sum(free // part.gpus * cells for free, cells in counts.items()) >= part.count


def free_counts(allocator: Allocator, vc: str, pool: str, freed: Freed) -> dict[int, int]:
    """How many cell nodes of a pool have how many free leaves once `freed` are: a count by free leaves."""
    special = sum(1 << cell for cell in freed)
    counts: dict[int, int] = {}
    for (sizes, used), members in allocator.cell_groups.get((vc, pool), {}).items():
        free = sizes[-1] - used.bit_count()
        counts[free] = counts.get(free, 0) + (members & ~special).bit_count()
        for cell in bits(members & special):
            more = free + (used & freed[cell]).bit_count()
            counts[more] = counts.get(more, 0) + 1
    return counts


class Tally:
    """Counts tasks without a cell as virtual leaves come free; the tasks of a pool are equal.

    `reserved` virtual leaves are kept for others.
    """

    def __init__(self, allocator: Allocator, vc: str, pools: Sequence[Pool], reserved: Freed) -> None:
        self._allocator = allocator
        self._owed = reserved
        self._freed: dict[int, int] = {}
        self._gpus = {pool.name: pool.parts[0].gpus for pool in pools}
        self._short = {pool.name: pool.parts[0].count for pool in pools}
        for pool in pools:
            gpus = self._gpus[pool.name]
            for (sizes, used), members in allocator.cell_groups.get((vc, pool.name), {}).items():
                self._short[pool.name] -= (sizes[-1] - used.bit_count()) // gpus * members.bit_count()
        for cell, mask in reserved.items():
            name = allocator.layout.cell_pool[cell]
            if name in self._gpus:
                free = self._width(cell) - allocator.used[cell].bit_count()
                less = (mask & ~allocator.used[cell]).bit_count()
                self._short[name] += free // self._gpus[name] - (free - less) // self._gpus[name]

    @property
    def enough(self) -> bool:
        """Whether every task fits."""
        return all(short <= 0 for short in self._short.values())

    def set_free(self, leaves: Freed, *, free: bool) -> None:
        """Marks these leaves as free, or as used again."""
        for cell, mask in leaves.items():
            name = self._allocator.layout.cell_pool[cell]
            gpus = self._gpus.get(name)
            if gpus is not None:
                before = self._free(cell) // gpus
                known = self._freed.get(cell, 0)
                self._freed[cell] = known | mask if free else known & ~mask
                self._short[name] += before - self._free(cell) // gpus

    def _free(self, cell: int) -> int:
        taken = self._allocator.used[cell] & ~self._freed.get(cell, 0) | self._owed.get(cell, 0)
        return self._width(cell) - taken.bit_count()

    def _width(self, cell: int) -> int:
        layout = self._allocator.layout
        return layout.quotas[layout.cell_quota[cell]].shape.width


def fewest(order: Sequence[str], leaves: Mapping[str, Freed], tally: Tally) -> set[str] | None:
    """The smallest set found of the jobs in `order` (cheapest first) that is enough; None if all are not.

    The shortest prefix that is enough (one job at least), then without each that is not needed, the dearest first.
    """
    taken: list[str] = []
    for name in order:
        if taken and tally.enough:
            break
        tally.set_free(leaves.get(name, {}), free=True)
        taken.append(name)
    if not tally.enough:
        return None
    chosen = set(taken)
    for name in reversed(taken[:-1]):
        tally.set_free(leaves.get(name, {}), free=False)
        if tally.enough:
            chosen.discard(name)
        else:
            tally.set_free(leaves.get(name, {}), free=True)
    return chosen


def spare_most(order: Sequence[Item], enough: Callable[[set[Item]], bool]) -> set[Item] | None:
    """`fewest` for where only a search can say whether a set is `enough`."""
    if not enough(set(order)):
        return None
    low = bisect_left(range(len(order)), True, lo=1, key=lambda count: enough(set(order[:count])))
    chosen = set(order[:low])
    for job in reversed(order[: low - 1]):
        if enough(chosen - {job}):
            chosen.discard(job)
    return chosen


def spare_untouched(order: Sequence[Item], uses: Callable[[set[Item]], set[Item] | None]) -> set[Item] | None:
    """`fewest` for where a search says which jobs of a set it `uses` (None: not enough), and is too slow to be run for
    each of the order."""
    if uses(set(order)) is None:
        return None
    size = bisect_left(range(len(order)), True, lo=1, key=lambda count: uses(set(order[:count])) is not None)
    first = set(order[:size])
    used = uses(first) or first
    some = [name for name in order[:size] if name in used]
    return spare_most(some, lambda chosen: uses(chosen) is not None) or first


class LowerPriorities:
    """The candidate victims of a cycle, by virtual cluster. `lowest` returns the lowest priority that runs or claims
    inside one."""

    def __init__(
        self,
        allocator: Allocator,
        running: Mapping[str, Running],
        claimants: Mapping[str, Job],
        costs: VictimCosts,
        lowest: Callable[[str], int],
    ) -> None:
        self.lowest = lowest
        self._allocator = allocator
        self._running = running
        self._claimants = claimants
        self._costs = costs
        self._candidates: dict[str, VictimCandidates] = {}
        self._came: dict[str, int] = {}

    def than(self, job: Job) -> list[str]:
        """Jobs of strictly lower priority in its virtual cluster, the cheapest first."""
        return self._of(job.vc).below(job.priority)

    def below(self, job: Job) -> VictimCandidates | None:
        """The candidates of its virtual cluster; None if none has a lower priority."""
        lowest = min(self.lowest(job.vc), self._came.get(job.vc, job.priority))
        return self._of(job.vc) if lowest < job.priority else None

    def count(self, job: Job) -> int:
        """How many jobs of its virtual cluster the job may take virtual leaves from."""
        below = self.below(job)
        return len(below.below(job.priority)) if below is not None else 0

    def came(self, job: Job) -> None:
        """Notes a job that runs inside its quota or claims cells since this cycle, which `lowest` does not cover."""
        self._came[job.vc] = min(job.priority, self._came.get(job.vc, job.priority))

    def _of(self, vc: str) -> VictimCandidates:
        if vc not in self._candidates:
            self._candidates[vc] = VictimCandidates(self._allocator, vc, self._worth)
        return self._candidates[vc]

    def _worth(self, name: str) -> tuple[Price, int] | None:
        """Price and priority of a job that runs or, cheaper, only claims; None if it is not to be preempted."""
        running = self._running.get(name)
        if running is None:
            claimant = self._claimants.get(name)
            return None if claimant is None else ((False, -1, claimant.priority, 0, name), claimant.priority)
        if not running.job.preemptible:
            return None
        protected, _, counted, lost, _ = self._costs.of(name)
        return (protected, running.job.priority, counted, lost, name), running.job.priority
