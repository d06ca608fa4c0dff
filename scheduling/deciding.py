"""One job against one ledger: does it start, and where; else why not. Nothing here changes the ledger."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduling import explain
from scheduling.decisions import Code, Reason, Start, Wait
from scheduling.jobs import Job, TaskPlacement
from scheduling.ledger import Layout, Ledger
from scheduling.ordering import candidates, chains
from scheduling.placement import bind, find
from scheduling.resources import Demand, demands, gpus_by_type
from scheduling.snapshot import Claim

NodeIds = frozenset[str] | None
"""Nodes by their ids; None is every node."""


NEARNESS = {code: number for number, code in enumerate(Code)}
"""The later a reason comes in the order of codes, the nearer is the job to a start."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A SKU for the roles that name none, with the demands that follow and the GPUs they need at the least.

    `needed` is by cell type: of all tasks for a gang, of the smallest task otherwise.
    """

    sku: str
    parts: tuple[Demand, ...]
    needed: dict[str, int]


@dataclass(frozen=True, slots=True)
class Shape:
    """What the placement of a job depends on; equal jobs of a virtual cluster share one.

    `modest`: some task of it leaves idle GPUs their reserve.
    """

    chains: frozenset[str]
    named: frozenset[str]
    choices: tuple[Choice, ...]
    modest: bool


class Shapes:
    """Shapes of jobs on one cluster, each worked out once."""

    LIMIT = 8192

    def __init__(self, layout: Layout) -> None:
        self._cluster = layout.cluster
        self._known: dict[object, Shape] = {}

    def of(self, job: Job) -> Shape:
        """The job's shape."""
        key = (job.vc, job.roles, job.wanted, job.gang, job.opportunistic)
        shape = self._known.get(key)
        if shape is None:
            if len(self._known) >= self.LIMIT:
                self._known.clear()
            shape = self._known[key] = self._work_out(job)
        return shape

    def _work_out(self, job: Job) -> Shape:
        named = frozenset(role.sku for role in job.roles if role.gpus and role.sku is not None)
        choices = []
        for sku in candidates(self._cluster, job):
            parts = demands(job, sku)
            needed = gpus_by_type(parts) if job.gang else _least(parts)
            choices.append(Choice(sku, parts, needed))
        modest = any(part.modest for choice in choices for part in choice.parts)
        return Shape(chains(self._cluster, job), named, tuple(choices), modest)


def _least(parts: tuple[Demand, ...]) -> dict[str, int]:
    smallest = min(parts, key=lambda demand: demand.gpus, default=None)
    return {smallest.cell_type: smallest.gpus} if smallest is not None and smallest.gpus else {}


def right_missing(ledger: Ledger, job: Job, choice: Choice) -> Reason | None:
    """Why the job has no right to the GPUs of this choice now: its quota, or what may be lent."""
    for cell_type, needed in choice.needed.items():
        if job.opportunistic:
            free = ledger.free_gpus(ledger.open_nodes & ledger.layout.nodes_of_type.get(cell_type, 0))
            owed = ledger.owed(cell_type)
            if needed > free - owed:
                return explain.lend_limit(cell_type, free, owed, needed)
        elif needed > ledger.quota_left(job.vc, cell_type):
            held, owned = ledger.held(job.vc, cell_type), ledger.owned(job.vc, cell_type)
            return explain.quota(job.vc, cell_type, held, owned, needed)
    return None


def attempt(
    ledger: Ledger, idle: Ledger, job: Job, choices: Sequence[Choice], allowed: int
) -> tuple[TaskPlacement, ...]:
    """Placements for the job under the first choice that holds it; none when it must wait.

    `allowed` are the nodes it may use; `idle` is the same cluster without jobs.
    """
    place = _place_gang if job.gang else _place_singly
    for choice in choices:
        if right_missing(ledger, job, choice) is None:
            found = place(ledger, job, choice, _preferred(idle, job, choice, allowed))
            if found:
                return found
    return ()


def dominant(ledger: Ledger, idle: Ledger, job: Job, choices: Sequence[Choice], allowed: int) -> Reason:
    """Why a job that must wait does: the reason under the choice that comes nearest to a start."""
    reasons = []
    for choice in choices:
        reason = right_missing(ledger, job, choice)
        if reason is None:
            parts = choice.parts if job.gang else (_smallest(choice.parts),)
            reason = explain.no_room(ledger, parts, _preferred(idle, job, choice, allowed), allowed)
        reasons.append(reason)
    return max(reasons, key=lambda one: NEARNESS[one.code], default=explain.no_gpus_owned(job.vc))


def _smallest(parts: tuple[Demand, ...]) -> Demand:
    """One task of the smallest demand."""
    demand = min(parts, key=lambda one: (one.gpus, one.cpu_milli, one.memory_mb))
    return demand.part(demand.tasks[:1])


def _preferred(idle: Ledger, job: Job, choice: Choice, allowed: int) -> int:
    """The nodes without those the job avoids, where the rest could hold the job if nothing else ran."""
    if not job.avoid_nodes:
        return allowed
    rest = allowed & ~idle.layout.mask_of(job.avoid_nodes)
    parts = choice.parts if job.gang else (_smallest(choice.parts),)
    return allowed if find(idle, parts, rest) is None else rest


def _place_gang(ledger: Ledger, job: Job, choice: Choice, nodes: int) -> tuple[TaskPlacement, ...]:
    spots = find(ledger, choice.parts, nodes)
    return bind(ledger, job, spots) if spots else ()


def _place_singly(ledger: Ledger, job: Job, choice: Choice, nodes: int) -> tuple[TaskPlacement, ...]:
    """As many tasks as find a right and a place, the largest first."""
    scratch = ledger.copy()
    placed: list[TaskPlacement] = []
    for demand in choice.parts:
        for task in demand.tasks:
            part = demand.part((task,))
            one = Choice(choice.sku, (part,), gpus_by_type((part,)))
            spots = None if right_missing(scratch, job, one) else find(scratch, (part,), nodes)
            if not spots:
                break
            (placement,) = bind(scratch, job, spots)
            scratch.hold(placement)
            placed.append(placement)
    return tuple(placed)


class Desk:
    """Decides one job at a time against one ledger."""

    def __init__(self, ledger: Ledger, idle: Ledger, shapes: Shapes, claims: Mapping[str, Claim]) -> None:
        self.ledger = ledger
        self.shapes = shapes
        self._idle = idle
        self._claims = claims
        self._claimants = {claim.claimant for claim in claims.values()}

    def hold(self, job: Job) -> Reason | None:
        """Why the job is not in its queue's order at all: paused, or waiting for others to end."""
        if job.paused:
            return explain.paused()
        if job.after:
            return explain.dependency(job.after)
        if job.vc not in self.ledger.layout.virtual_clusters:
            return explain.no_virtual_cluster(job.vc)
        return None

    def decide(self, job: Job, now: int, nodes: NodeIds, choices: Sequence[Choice]) -> Start | Wait:
        """Start (what fits of it) or wait, under these choices of a SKU."""
        ledger = self._ledger_for(job)
        found = attempt(ledger, self._idle, job, choices, self._allowed(job, nodes))
        if found:
            return Start(job, found, now)
        return Wait(job, dominant(ledger, self._idle, job, choices, self._allowed(job, nodes)))

    def start(self, job: Job, now: int, choices: Sequence[Choice]) -> Start | None:
        """The same without a reason, on every node."""
        found = attempt(self._ledger_for(job), self._idle, job, choices, self._allowed(job, None))
        return Start(job, found, now) if found else None

    def reason(self, job: Job, choices: Sequence[Choice]) -> Reason:
        """Why a job that does not start waits."""
        return dominant(self._ledger_for(job), self._idle, job, choices, self._allowed(job, None))

    def _allowed(self, job: Job, nodes: NodeIds) -> int:
        layout = self.ledger.layout
        allowed = layout.all_nodes() if nodes is None else layout.mask_of(nodes)
        return allowed if job.only_nodes is None else allowed & layout.mask_of(job.only_nodes)

    def apply(self, start: Start) -> None:
        """Carry the start out on the ledger."""
        for placement in start.placements:
            for use in placement.leaves:
                if use.leaf in self._claims:
                    self.ledger.unclaim(use.leaf)
            self.ledger.hold(placement)

    def _ledger_for(self, job: Job) -> Ledger:
        """The ledger as the job may see it: cells claimed for it are free to it."""
        if job.id not in self._claimants:
            return self.ledger
        ledger = self.ledger.copy()
        for claim in self._claims.values():
            if claim.claimant == job.id:
                ledger.unclaim(claim.leaf)
        return ledger
