"""Whom to take cells from: never more than needed, and those whose loss costs least.

Across virtual clusters only what is borrowed is taken back: first from the virtual cluster with the largest
weighted borrowed share, there the least lost work. Inside one, strictly lower priorities are.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from scheduling.decisions import Victim
from scheduling.fairness import DominantShares
from scheduling.jobs import Job, TaskRef
from scheduling.ledger import Ledger, PlacementConflict
from scheduling.snapshot import Claim, Running
from scheduling.topology import bits

Cost = tuple[bool, int, int, int, str]
"""What a victim costs: inside its minimum run time; less its virtual cluster's borrowed share; lost work in GPU
milliseconds, as it counts and then as it is; its id. The smallest goes first."""


class Costs:
    """What it costs to end running jobs, at one moment (ms). `borrowed` are the shares on loan."""

    def __init__(self, running: Mapping[str, Running], borrowed: DominantShares, now: int, unsaved_cap_ms: int) -> None:
        self._running = running
        self._borrowed = borrowed
        self._now = now
        self._cap = unsaved_cap_ms
        self._lost: dict[str, tuple[bool, int, int]] = {}

    def of(self, job: str) -> Cost:
        """The cost of a running job (of all of it)."""
        known = self._lost.get(job)
        running = self._running.get(job)
        if running is None:
            return (False, 0, 0, 0, job)
        if known is None:
            known = self._lost[job] = (self._protected(running), *self._work(running))
        return (known[0], -self._borrowed.key(running.job.vc), known[1], known[2], job)

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

    def _work(self, running: Running) -> tuple[int, int]:
        """GPU milliseconds since the last checkpoint, or since the start: up to the cap where none was made, and all.

        Without the second, long runs beyond the cap would be alike, and an id would choose among them.
        """
        counted = lost = 0
        for task in running.tasks:
            since = max(0, self._now - max(task.checkpoint_ms or 0, task.started_ms))
            capped = since if task.checkpoint_ms is not None else min(since, self._cap)
            counted += capped * len(task.placement.leaves)
            lost += since * len(task.placement.leaves)
        return counted, lost

    def cheapest(self, ledger: Ledger, number: int, mask: int, count: int) -> tuple[tuple[Cost, ...], int]:
        """Of the held leaves in the mask `count` whose holders cost least, and these holders' costs."""
        holders = sorted((self.of(job), own & mask) for job, own in ledger.held[number].items() if own & mask)
        paid: list[Cost] = []
        taken = 0
        for cost, own in holders:
            if taken.bit_count() >= count:
                break
            paid.append(cost)
            for bit in bits(own):
                if taken.bit_count() < count:
                    taken |= 1 << bit
        return tuple(paid), taken


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


def give_back(ledger: Ledger, running: Mapping[str, Running], claims: Iterable[Claim]) -> set[str]:
    """Victims of claims that were given up, as far as they still run, have their virtual cells again; answers with
    those that have. A leaf whose virtual cell is another's by now stays on loan."""
    regained = set()
    for claim in claims:
        victim = running.get(claim.victim or "")
        for task in victim.tasks if victim is not None else ():
            uses = tuple(use for use in task.placement.leaves if use.leaf == claim.leaf and use.virtual_cell)
            if not uses:
                continue
            ledger.begin()
            try:
                ledger.unlend(claim.victim or "", replace(task.placement, leaves=uses))
            except PlacementConflict:
                ledger.take_back()
            else:
                ledger.keep()
                regained.add(claim.victim or "")
    return regained


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
