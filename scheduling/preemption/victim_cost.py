"""The cost of victims: whom to take cells from so that the loss is least.

Across virtual clusters only what is borrowed is taken back: first from the virtual cluster with the largest
weighted borrowed share, there the least lost work; or, by the cluster's policy, the least lost work whose ever it
is. Inside one, strictly lower priorities are.
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
from scheduling.model.job import Job, TaskRef
from scheduling.model.plan import Victim
from scheduling.model.snapshot import Claim, Running
from scheduling.queue.dominant_share import DominantShares

Turn = tuple[float, int]
"""Whose turn it is to pay: less the share on loan of the virtual cluster, then the priority. Where the policy does not
ask for shares, the former is 0 and the latter tells only opportunistic jobs (-1) from others (0)."""

Cost = tuple[bool, Turn, int, int, int]
"""What victims cost: whether one is inside its minimum run time; the last turn of them; lost work in GPU milliseconds,
as it counts and then as it is; the GPUs that end with them. The smallest goes first."""

NOTHING: Cost = (False, (-inf, 0), 0, 0, 0)
"""What it costs to end nobody, or whoever is on the way out already."""

Loss = tuple[Cost, tuple[int, ...], int, int]
"""Leaves to take back on a node: what that costs, a rank among equals, the node, and a mask or where a cell begins."""

Payer = tuple[int, int, int, str, int]
"""A running job: what the least part of it costs (lost work, as it counts and as it is; GPUs), its id, its nodes (a
mask)."""


Payers = frozenset[tuple[bool, str | None, int]]
"""Who loses leaves: whether inside the minimum run time, of which virtual cluster (None: is on the way out), and the
priority as it counts."""


class Block(NamedTuple):
    """What all jobs on some leaves of a node cost: the node's turnover at the time, who pays (a number), the rest of
    the cost."""

    turnover: int
    payers: int
    rest: tuple[int, int, int]


class VictimCosts:
    """What it costs to end running jobs, at one moment (ms). `borrowed`: shares on loan; `by_share`: the largest pays
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
        return protected, self._turn(running.job.vc, self._rank(running.job)), counted, lost, gpus

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

    def is_firm(self, job: str) -> bool:
        """Whether nobody may preempt the running job."""
        running = self._running.get(job)
        return running is not None and not running.job.preemptible

    def gives_way(self, job: str, taker: Job, *, bare: bool) -> bool:
        """Whether the running job gives back what it has on loan for this one: inside a virtual cluster only to a
        higher priority, but where it has no GPUs there (`bare`); and never in the cycle in which it starts."""
        running = self._running.get(job)
        if running is None or job in self.begun:
            return False
        return bare or running.job.vc != taker.vc or running.job.priority < taker.priority

    def all_of(self, vc: str, jobs: Iterable[str]) -> bool:
        """Whether these running jobs are all of one virtual cluster."""
        return all(job in self._running and self._running[job].job.vc == vc for job in jobs)

    def _turn(self, vc: str, rank: int) -> Turn:
        return (-self._borrowed.key(vc) if self.by_share else 0), rank

    def _rank(self, job: Job) -> int:
        """The priority, as far as the policy asks for it."""
        return job.priority if self.by_share else min(job.priority, 0)

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
        self, allocator: Allocator, number: int, mask: int, count: int, gone: Collection[str] = ()
    ) -> tuple[Cost, int]:
        """The holders of at least `count` leaves in the mask that cost least together: their cost, their leaves there.

        Whoever is `gone` already costs nothing. The leaves of one holder are taken or left as a whole.
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
        """The loss of all who hold leaves of a block (node, mask), at the price of whichever of them would be the first
        to pay: a cell there never costs less. Kept for the next cells that are looked for."""
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
        """Who of these payers would be the first to pay; the same for all blocks until a share changes."""
        first = self._firsts[number] = min(
            (protected, NOTHING[1] if vc is None else self._turn(vc, rank))
            for protected, vc, rank in self._together[number]
        )
        return first

    def _number_of(self, payers: Payers) -> int:
        """Blocks go by these numbers: to find equal sets among sets takes longer than all the rest."""
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
        """The end of this job is ordered now: what nobody has claimed of its GPUs costs nothing more."""
        for number in _numbers(allocator, self._running[job]) if self._blocks else ():
            self._blocks.pop(number, None)
        if self._payers is not None and self.of(job) == NOTHING:
            self._over.add(job)
            self._going |= _unclaimed(allocator, self._running[job])

    def least_first(
        self, allocator: Allocator, nodes: int, losses: Callable[[int], Iterable[Loss]], gone: Iterable[str] = ()
    ) -> Iterator[Loss]:
        """All `losses` on these nodes, the least first, found as they are asked for: the job that costs least is the
        first to be looked at wherever it runs, then the next. No set of victims costs less than one of them.
        """
        found: list[Loss] = []
        for bound, own in self._in_order(allocator, gone) if nodes else ():
            for number in bits(own & nodes):
                for loss in losses(number):
                    heappush(found, loss)
            nodes &= ~own
            if not nodes:
                break  # who costs more runs nowhere that counts
            while found and found[0][0] <= bound:
                yield heappop(found)
        yield from sorted([*found, *(loss for number in bits(nodes) for loss in losses(number))])

    def _in_order(self, allocator: Allocator, gone: Iterable[str]) -> Iterator[tuple[Cost, int]]:
        """What running jobs cost at least, and all their nodes; those that cost least first, before them all who is
        on the way out."""
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
        """Who runs at the first look, those last that cost least; in one virtual cluster the order stays, whatever is
        lent meanwhile."""
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
    """The nodes where it has GPUs."""
    position = allocator.layout.position
    places = (one.placement.node for one in running.tasks if one.placement.leaves)
    return {position[one] for one in places if one in position}


def _unclaimed(allocator: Allocator, running: Running) -> int:
    """The nodes (a mask) where it has GPUs that are not claimed."""
    used, claimed, name = allocator.leaves_by_job, allocator.claimed, running.job.id
    return sum(1 << one for one in _numbers(allocator, running) if used[one].get(name, 0) & ~claimed[one])


def _together(one: Cost, other: Cost) -> Cost:
    """What two sets of victims cost together: of their virtual clusters the one with the smaller share counts, of their
    priorities the higher one."""
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


def give_back(allocator: Allocator, running: Mapping[str, Running], claims: Iterable[Claim]) -> set[str]:
    """Gives victims of dropped claims that still run their virtual cells again; returns those that have them. A leaf
    whose virtual cell is another's by now stays on loan."""
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
