"""Whom to take cells from: never more than needed, and those whose loss costs least.

Across virtual clusters only what is borrowed is taken back: first from the virtual cluster with the largest
weighted borrowed share, there the least lost work. Inside one, strictly lower priorities are.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import merge

from scheduling.decisions import Victim
from scheduling.fairness import DominantShares
from scheduling.jobs import TaskRef
from scheduling.ledger import Ledger
from scheduling.snapshot import Running
from scheduling.topology import bits

Cost = tuple[bool, int, int, int, str]
"""What a victim costs: inside its minimum run time; less its virtual cluster's borrowed share; lost work in GPU
milliseconds, as it counts and then as it is; its id. The smallest goes first."""

Loss = tuple[tuple[Cost, ...], int, int, int]
"""Leaves to take back on a node: what that costs (the cheapest holders first), a rank among equals, the node, and a
mask or where a cell begins."""

Payer = tuple[int, int, str, int]
"""A running job: its lost work, as it counts and as it is; its id; its nodes (a mask)."""


class Costs:
    """What it costs to end running jobs, at one moment (ms). `borrowed` are the shares on loan."""

    def __init__(self, running: Mapping[str, Running], borrowed: DominantShares, now: int, unsaved_cap_ms: int) -> None:
        self._running = running
        self._borrowed = borrowed
        self._now = now
        self._cap = unsaved_cap_ms
        self._lost: dict[str, tuple[bool, int, int]] = {}
        self._payers: dict[tuple[bool, str], list[Payer]] = {}
        self._listed: set[str] = set()

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

    def least_first(self, ledger: Ledger, nodes: int, losses: Callable[[int], Iterable[Loss]]) -> Iterator[Loss]:
        """All `losses` on these nodes, the least first, found as they are asked for: the cheapest job that runs there
        is the first to pay wherever it runs, then the next."""
        for job, own in self._in_order(ledger.layout.position, nodes):
            found = [one for number in bits(own & nodes) for one in losses(number) if one[0][0][-1] == job]
            yield from sorted(found)
        rest = (one for number in bits(nodes) for one in losses(number) if one[0][0][-1] not in self._listed)
        yield from sorted(rest)

    def _in_order(self, position: Mapping[str, int], wanted: int) -> Iterator[tuple[str, int]]:
        """The jobs that run on wanted nodes, with all their nodes; those that cost least first."""
        if not self._listed:
            self._list(position)
        key = self._borrowed.key
        shares = sorted({(protected, -key(vc)) for protected, vc in self._payers})
        for rank in shares:
            alike = [known for (protected, vc), known in self._payers.items() if (protected, -key(vc)) == rank]
            some = [_on(wanted, known) for known in alike]
            for *_, job, nodes in merge(*some) if len(some) > 1 else some[0]:
                yield job, nodes

    def _list(self, position: Mapping[str, int]) -> None:
        """Who runs at the first look; in one virtual cluster the order stays, whatever is lent meanwhile."""
        for name, running in self._running.items():
            protected, _, counted, lost, _ = self.of(name)
            nodes = {position[one.placement.node] for one in running.tasks if one.placement.node in position}
            payer = counted, lost, name, sum(1 << number for number in nodes)
            self._payers.setdefault((protected, running.job.vc), []).append(payer)
        for some in self._payers.values():
            some.sort()
        self._listed = set(self._running)


def _on(nodes: int, payers: list[Payer]) -> Iterator[Payer]:
    return (one for one in payers if one[3] & nodes)


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
