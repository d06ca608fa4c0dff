"""Whom to take cells from: never more than needed, and those whose loss costs least.

Across virtual clusters only what is borrowed is taken back: first from the virtual cluster with the largest
weighted borrowed share, there the least lost work. Inside one, strictly lower priorities are.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import inf

from scheduling.decisions import Victim
from scheduling.fairness import DominantShares
from scheduling.jobs import Job, TaskRef
from scheduling.ledger import Ledger
from scheduling.snapshot import Running

Cost = tuple[bool, float, int, int, int]
"""What victims cost: whether one is inside its minimum run time; less the smallest share on loan that the virtual
cluster of one of them has; lost work in GPU milliseconds, as it counts and then as it is; the GPUs that end with them.
The smallest goes first."""

NOTHING: Cost = (False, -inf, 0, 0, 0)
"""What it costs to end nobody, or whoever is on the way out already."""


class Costs:
    """What it costs to end running jobs, at one moment (ms). `borrowed` are the shares on loan."""

    def __init__(self, running: Mapping[str, Running], borrowed: DominantShares, now: int, unsaved_cap_ms: int) -> None:
        self._running = running
        self._borrowed = borrowed
        self._now = now
        self._cap = unsaved_cap_ms
        self._lost: dict[str, tuple[bool, int, int, int]] = {}

    def of(self, job: str, leaves: int | None = None) -> Cost:
        """The cost of a running job: of all of it, or of `leaves` where it is no gang and only they are taken.

        Who is on the way out already costs nothing more.
        """
        running = self._running.get(job)
        if running is None or running.tasks[0].leaving and running.job.gang:
            return NOTHING
        known = self._lost.get(job)
        if known is None:
            known = self._lost[job] = (self._protected(running), *self._work(running))
        protected, gpus, counted, lost = known
        if leaves is not None and not running.job.gang and gpus:
            gpus, counted, lost = leaves, counted * leaves // gpus, lost * leaves // gpus
        return protected, -self._borrowed.key(running.job.vc), counted, lost, gpus

    def is_gang(self, job: str) -> bool:
        """Whether all tasks of the running job end together."""
        running = self._running.get(job)
        return running is None or running.job.gang

    def is_leaving(self, job: str, task: TaskRef) -> bool:
        """Whether the end of this task is ordered already."""
        running = self._running.get(job)
        return running is not None and any(one.leaving and one.placement.task == task for one in running.tasks)

    def is_opportunistic(self, job: str) -> bool:
        """Whether the running job is outside every quota by its priority."""
        running = self._running.get(job)
        return running is not None and running.job.opportunistic

    def _protected(self, running: Running) -> bool:
        return any(self._now - task.started_ms < running.job.min_run_ms for task in running.tasks)

    def _work(self, running: Running) -> tuple[int, int, int]:
        """The job's GPUs, and its GPU milliseconds since the last checkpoint, or since the start: up to the cap where
        none was made, and all.

        Without the last, long runs beyond the cap would be alike, and an id would choose among them.
        """
        gpus = counted = lost = 0
        for task in running.tasks:
            since = max(0, self._now - max(task.checkpoint_ms or 0, task.started_ms))
            capped = since if task.checkpoint_ms is not None else min(since, self._cap)
            gpus += len(task.placement.leaves)
            counted += capped * len(task.placement.leaves)
            lost += since * len(task.placement.leaves)
        return gpus, counted, lost

    def cheapest(
        self, ledger: Ledger, number: int, mask: int, count: int, gone: Collection[str] = ()
    ) -> tuple[Cost, int]:
        """The holders of at least `count` leaves in the mask that cost least together: their cost, their leaves there.

        Whoever is `gone` already costs nothing. The leaves of one holder are taken or left as a whole.
        """
        holders = [
            (NOTHING if job in gone else self.of(job, (own & mask).bit_count()), own & mask)
            for job, own in sorted(ledger.held[number].items())
            if own & mask
        ]
        if count == 1 and holders:
            return min(holders, key=lambda one: one[0])
        best: dict[int, tuple[Cost, int]] = {0: (NOTHING, 0)}
        for cost, own in holders:
            for had, (paid, leaves) in sorted(best.items(), reverse=True):
                has = min(count, had + own.bit_count())
                total = _together(paid, cost)
                if has > had and (has not in best or total < best[has][0]):
                    best[has] = total, leaves | own
        return best.get(count, (NOTHING, 0))


def _together(one: Cost, other: Cost) -> Cost:
    """What two sets of victims cost together: of their virtual clusters the one with the smaller share counts."""
    return one[0] or other[0], max(one[1], other[1]), one[2] + other[2], one[3] + other[3], one[4] + other[4]


def victims(running: Mapping[str, Running], taken: Iterable[tuple[str, TaskRef]]) -> tuple[Victim, ...]:
    """What must end when these tasks lose their places: gangs as a whole."""
    tasks: dict[str, set[TaskRef]] = {}
    for job, task in taken:
        tasks.setdefault(job, set()).add(task)
    found = []
    for job in sorted(tasks):
        one = running[job]
        every = tuple(task.placement.task for task in one.tasks)
        lost = every if one.job.gang else tuple(task for task in every if task in tasks[job])
        found.append(Victim(job, lost, one.job.grace_ms))
    return tuple(found)


def lower(job: Job, running: Mapping[str, Running], claimants: Mapping[str, Job]) -> set[str]:
    """Jobs of the same virtual cluster that this one may take cells from: strictly lower in priority.

    Running ones that are preemptible, and those that only claim cells so far.
    """
    found = {
        one.job.id
        for one in running.values()
        if one.job.vc == job.vc and one.job.priority < job.priority and one.job.preemptible
    }
    return found | {one.id for one in claimants.values() if one.vc == job.vc and one.priority < job.priority}


def spare_most(order: Sequence[str], enough: Callable[[set[str]], bool]) -> set[str]:
    """The smallest set found of the jobs in `order` (those to be taken first come first) that is `enough`.

    First the shortest beginning of the order that is enough, then without each job that is not needed, the
    dearest first. The whole order is known to be enough.
    """
    low, high = 1, len(order)
    while low < high:
        middle = (low + high) // 2
        if enough(set(order[:middle])):
            high = middle
        else:
            low = middle + 1
    chosen = set(order[:low])
    for job in reversed(order[: low - 1]):
        if enough(chosen - {job}):
            chosen.discard(job)
    return chosen
