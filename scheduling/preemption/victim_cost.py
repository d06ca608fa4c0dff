"""Cost of ending running jobs, so that the cheapest victims are chosen.

Across virtual clusters only loans are reclaimed: first from the virtual cluster with the largest weighted share on
loan, there the least lost work; or, by the cluster's policy, the least lost work in any. Inside one, only strictly
lower priorities are preempted.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import reduce
from heapq import heappop, heappush, merge
from math import inf
from operator import or_
from typing import NamedTuple

from scheduling.cells.allocator import Allocator, PlacementConflict
from scheduling.cells.node_bits import bits
from scheduling.model.cluster import FirstToPay, Policy
from scheduling.model.elastic import EXTRA
from scheduling.model.job import Job, TaskRef
from scheduling.model.plan import Victim
from scheduling.model.snapshot import Claim, Running
from scheduling.queue.dominant_share import DominantShares

Turn = tuple[float, int]
"""When a job loses its cells, the smallest first: minus its virtual cluster's weighted share on loan, then its
priority. Where the policy ignores shares, the former is 0 and the latter only opportunistic (-1) or not (0). Extra
tasks of elastic jobs come before all others, whatever the shares."""

Cost = tuple[bool, Turn, int, int, int]
"""Cost of a set of victims, the smallest preferred: whether one is inside its minimum run time; the latest turn among
them; lost work in GPU milliseconds, capped and then in full; the GPUs that end with them."""

NOTHING: Cost = (False, (-inf, EXTRA - 1), 0, 0, 0)
"""Cost of ending nobody, or a job that is ending already."""

MEETING_MS = 30_000
"""What an elastic job loses for each GPU of an extra task: the others meet anew, and go on from what was saved last."""

MOST_TASKS = 1 << 20
"""More than a role has."""

Loss = tuple[Cost, tuple[int, ...], int, int]
"""Leaves to take back on a node: their cost, a rank among equals, the node, and a mask or where a cell begins."""

Payer = tuple[int, int, int, str, int]
"""A running job that may lose cells: the least that any part of it costs (lost work, capped and in full; GPUs), its id,
its nodes (a mask)."""


Payers = frozenset[tuple[bool, str | None, int]]
"""The holders of some leaves, as far as their turn depends on it: whether inside the minimum run time, virtual cluster
(None: ending already), priority as the policy counts it."""


class Block(NamedTuple):
    """Cost of ending all jobs on some leaves of a node, cached: the node's turnover then, the number of the set of
    payers, the rest of the cost."""

    turnover: int
    payers: int
    rest: tuple[int, int, int]


class VictimCosts:
    """The cost of ending running jobs, at one moment (ms). `borrowed`: shares on loan; `by_share`: the largest loses
    first; `begun`: jobs that start in this cycle."""

    def __init__(self, running: Mapping[str, Running], borrowed: DominantShares, now: int, policy: Policy) -> None:
        self._running = running
        self._borrowed = borrowed
        self._now = now
        self.begun: set[str] = set()
        self._cap = policy.unsaved_cap_ms
        self.by_share = policy.first_to_pay is FirstToPay.SHARE
        self._lost: dict[str, tuple[bool, int, int, int]] = {}
        self._payers: dict[tuple[bool, str, int], list[Payer]] | None = None
        self._going = 0
        self._over: set[str] = set()
        self._blocks: dict[int, dict[int, Block]] = {}
        self._together: list[Payers] = []
        self._numbers: dict[Payers, int] = {}
        self._firsts: list[tuple[bool, Turn] | None] = []
        self._firsts_at = 0

    def of(self, job: str, leaves: int | None = None) -> Cost:
        """The cost of a running job: of all of it, or of `leaves` if it is no gang and only they are taken.

        A job that is ending already costs nothing more.
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
        return protected, self._turn(running.job.vc, self._rank(running.job)), counted, lost, gpus

    def is_gang(self, job: str) -> bool:
        """Whether all tasks of the running job end together."""
        running = self._running.get(job)
        return running is None or running.job.gang

    def is_leaving(self, job: str, task: TaskRef) -> bool:
        """Whether this task has been ordered to end."""
        running = self._running.get(job)
        return running is not None and any(one.leaving and one.placement.task == task for one in running.tasks)

    def is_opportunistic(self, job: str) -> bool:
        """Whether the running job is opportunistic: outside every quota by its priority."""
        running = self._running.get(job)
        return running is not None and running.job.opportunistic

    def is_firm(self, job: str) -> bool:
        """Whether the running job is non-preemptible."""
        running = self._running.get(job)
        return running is not None and not running.job.preemptible

    def gives_way(self, job: str, taker: Job, *, bare: bool) -> bool:
        """Whether the running job's loan may be reclaimed for `taker`: inside a virtual cluster only for a higher
        priority, unless it has no GPUs there (`bare`); never in the cycle in which it starts."""
        running = self._running.get(job)
        if running is None or job in self.begun:
            return False
        return bare or running.job.vc != taker.vc or running.job.priority < taker.priority

    def all_of(self, vc: str, jobs: Iterable[str]) -> bool:
        """Whether all these running jobs belong to one virtual cluster."""
        return all(job in self._running and self._running[job].job.vc == vc for job in jobs)

    def _turn(self, vc: str, rank: int) -> Turn:
        if rank == EXTRA:
            return -inf, EXTRA
        return (-self._borrowed.key(vc) if self.by_share else 0), rank

    def _rank(self, job: Job) -> int:
        """The priority as the policy counts it."""
        return job.priority if self.by_share else min(job.priority, 0)

    def _protected(self, running: Running) -> bool:
        return any(self._now - task.started_ms < running.job.min_run_ms for task in running.tasks)

    def _work(self, running: Running) -> tuple[int, int, int]:
        """The job's GPUs, and the GPU milliseconds lost since its last checkpoint or its start: capped if it made no
        checkpoint, and in full.

        Without the latter, long runs beyond the cap would tie, and an id would decide. Of extra tasks the highest index
        loses least.
        """
        if running.job.priority == EXTRA:
            gpus = sum(len(task.placement.leaves) for task in running.tasks)
            return gpus, MEETING_MS * gpus, MOST_TASKS - running.tasks[0].placement.task.index
        gpus = counted = lost = 0
        for task in running.tasks:
            since = max(0, self._now - max(task.checkpoint_ms or 0, task.started_ms))
            capped = since if task.checkpoint_ms is not None else min(since, self._cap)
            gpus += len(task.placement.leaves)
            counted += capped * len(task.placement.leaves)
            lost += since * len(task.placement.leaves)
        return gpus, counted, lost

    def cheapest(
        self, allocator: Allocator, number: int, mask: int, count: int, gone: Collection[str] = ()
    ) -> tuple[Cost, int]:
        """The cheapest holders of at least `count` leaves in the mask: their cost, their leaves there.

        Holders in `gone` cost nothing. A holder's leaves are taken or left as a whole.
        """
        holders = [
            (NOTHING if job in gone else self.of(job, (own & mask).bit_count()), own & mask)
            for job, own in sorted(allocator.leaves_by_job[number].items())
            if own & mask
        ]
        if count == 1 and holders:
            return min(holders, key=lambda one: one[0])
        if count == sum(own.bit_count() for _, own in holders):  # nothing to choose
            paid = reduce(_together, (cost for cost, _ in holders), NOTHING)
            return paid, reduce(or_, (own for _, own in holders), 0)
        best: dict[int, tuple[Cost, int]] = {0: (NOTHING, 0)}
        for cost, own in holders:
            for had, (paid, leaves) in sorted(best.items(), reverse=True):
                has = min(count, had + own.bit_count())
                total = _together(paid, cost)
                if has > had and (has not in best or total < best[has][0]):
                    best[has] = total, leaves | own
        return best.get(count, (NOTHING, 0))

    def at_least(
        self, allocator: Allocator, blocks: Iterable[tuple[int, int]], gone: Collection[str] = ()
    ) -> list[Cost]:
        """Lower bounds of the cost of blocks (node, mask): the loss of all holders, at the turn of whichever would lose
        first. No cell there costs less. Cached for later searches."""
        if self._firsts_at != self._borrowed.changes:
            self._firsts_at = self._borrowed.changes
            self._firsts = [None] * len(self._together)
        found = []
        for number, mask in blocks:
            known = self._blocks[number].get(mask) if not gone and number in self._blocks else None
            if known is None or known.turnover != allocator.turnover[number]:
                known = self._block(allocator, number, mask, gone)
                if not gone:
                    self._blocks.setdefault(number, {})[mask] = known
            _, payers, (counted, lost, gpus) = known
            protected, turn = self._firsts[payers] or self._first_of(payers)
            found.append((protected, turn, counted, lost, gpus))
        return found

    def _first_of(self, number: int) -> tuple[bool, Turn]:
        """The first of these payers to lose; the same for all blocks until a share changes."""
        first = self._firsts[number] = min(
            (protected, NOTHING[1] if vc is None else self._turn(vc, rank))
            for protected, vc, rank in self._together[number]
        )
        return first

    def _number_of(self, payers: Payers) -> int:
        """Numbers a set of payers: comparing the sets themselves would take longer than all the rest."""
        number = self._numbers.setdefault(payers, len(self._together))
        if number == len(self._together):
            self._together.append(payers)
            self._firsts.append(None)
        return number

    def _block(self, allocator: Allocator, number: int, mask: int, gone: Collection[str]) -> Block:
        holders, payers = allocator.leaves_by_job[number], set[tuple[bool, str | None, int]]()
        counted = lost = gpus = 0
        for job, own in holders.items():
            if own & mask:
                cost = NOTHING if job in gone else self.of(job, (own & mask).bit_count())
                payers.add((cost[0], None if cost == NOTHING else self._running[job].job.vc, cost[1][1]))
                counted, lost, gpus = counted + cost[2], lost + cost[3], gpus + cost[4]
        number_of_payers = self._number_of(frozenset(payers or {(False, None, 0)}))
        return Block(allocator.turnover[number], number_of_payers, (counted, lost, gpus))

    def told_to_leave(self, allocator: Allocator, job: str) -> None:
        """Notes that this job is ordered to end: its unclaimed GPUs cost nothing more."""
        for number in _numbers(allocator, self._running[job]) if self._blocks else ():
            self._blocks.pop(number, None)
        if self._payers is not None and self.of(job) == NOTHING:
            self._over.add(job)
            self._going |= _unclaimed(allocator, self._running[job])

    def least_first(
        self, allocator: Allocator, nodes: int, losses: Callable[[int], Iterable[Loss]], gone: Iterable[str] = ()
    ) -> Iterator[Loss]:
        """Yields `losses` on these nodes, the cheapest first, searched lazily: first the nodes of the job that costs
        least, then those of the next. No set of victims costs less than one of them."""
        found: list[Loss] = []
        for bound, own in self._in_order(allocator, gone) if nodes else ():
            for number in bits(own & nodes):
                for loss in losses(number):
                    heappush(found, loss)
            nodes &= ~own
            if not nodes:
                break  # all nodes have been searched
            while found and found[0][0] <= bound:
                yield heappop(found)
        yield from sorted([*found, *(loss for number in bits(nodes) for loss in losses(number))])

    def _in_order(self, allocator: Allocator, gone: Iterable[str]) -> Iterator[tuple[Cost, int]]:
        """Lower bounds of what running jobs cost, with their nodes; the cheapest first, before them all that are
        ending."""
        if self._payers is None:
            self._payers = self._listed(allocator)
        yield NOTHING, reduce(or_, (_unclaimed(allocator, self._running[job]) for job in gone), self._going)
        alike: dict[tuple[bool, Turn], list[list[Payer]]] = {}
        for (protected, vc, rank), known in self._payers.items():
            while known and known[-1][3] in self._over:
                known.pop()
            alike.setdefault((protected, self._turn(vc, rank)), []).append(known)
        for (protected, turn), some in sorted(alike.items()):
            for counted, lost, gpus, _, nodes in merge(*map(reversed, some)):
                yield (protected, turn, counted, lost, gpus), nodes

    def _listed(self, allocator: Allocator) -> dict[tuple[bool, str, int], list[Payer]]:
        """The running jobs at the first call, by group, the cheapest last; inside a virtual cluster this order holds,
        whatever is lent meanwhile."""
        found: dict[tuple[bool, str, int], list[Payer]] = {}
        for name, running in self._running.items():
            cost = self.of(name, 1)
            if cost == NOTHING:
                self._going |= _unclaimed(allocator, running)
            else:
                nodes = sum(1 << number for number in _numbers(allocator, running))
                found.setdefault((cost[0], running.job.vc, cost[1][1]), []).append((*cost[2:], name, nodes))
        for some in found.values():
            some.sort(reverse=True)
        return found


def _numbers(allocator: Allocator, running: Running) -> set[int]:
    """The numbers of the nodes where it has GPUs."""
    position = allocator.layout.position
    places = (one.placement.node for one in running.tasks if one.placement.leaves)
    return {position[one] for one in places if one in position}


def _unclaimed(allocator: Allocator, running: Running) -> int:
    """The nodes (a mask) where it has unclaimed GPUs."""
    used, claimed, name = allocator.leaves_by_job, allocator.claimed, running.job.id
    return sum(1 << one for one in _numbers(allocator, running) if used[one].get(name, 0) & ~claimed[one])


def _together(one: Cost, other: Cost) -> Cost:
    """The joint cost of two sets of victims: the later turn counts, of the virtual cluster with the smaller share or of
    the higher priority."""
    return one[0] or other[0], max(one[1], other[1]), one[2] + other[2], one[3] + other[3], one[4] + other[4]


def victims(running: Mapping[str, Running], taken: Iterable[tuple[str, TaskRef]]) -> tuple[Victim, ...]:
    """The tasks that end when these lose their cells: gangs as a whole."""
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


def give_back(allocator: Allocator, running: Mapping[str, Running], claims: Iterable[Claim]) -> set[str]:
    """Rebinds victims of dropped claims that still run to their virtual cells; returns their ids. A leaf whose virtual
    cell is another job's by now stays on loan."""
    regained = set()
    for claim in claims:
        victim = running.get(claim.victim or "")
        for task in victim.tasks if victim is not None else ():
            uses = tuple(use for use in task.placement.leaves if use.leaf == claim.leaf and use.virtual_cell)
            if not uses:
                continue
            with suppress(PlacementConflict), allocator.transaction():
                allocator.unlend(claim.victim or "", task.placement._replace(leaves=uses))
                regained.add(claim.victim or "")
    return regained
