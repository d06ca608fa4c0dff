"""One job against one ledger: does it start, and where; else why not. Nothing here changes the ledger."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduling import explain
from scheduling.decisions import Code, Reason, Start, Wait
from scheduling.jobs import Job, TaskPlacement, TaskRef
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
class Unit:
    """Tasks that start together: all that wait of a gang, else one of a demand's equal tasks.

    `needed` are their GPUs by cell type; `tasks` those that start one after the other in this way.
    """

    parts: tuple[Demand, ...]
    needed: dict[str, int]
    tasks: tuple[TaskRef, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """A SKU for the roles that name none, and the units to start under it, the largest first."""

    sku: str
    units: tuple[Unit, ...]


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
            units = (_gang(parts),) if job.gang else tuple(_single(part) for part in parts)
            choices.append(Choice(sku, units))
        modest = any(part.modest for choice in choices for unit in choice.units for part in unit.parts)
        return Shape(chains(self._cluster, job), named, tuple(choices), modest)


def _gang(parts: tuple[Demand, ...]) -> Unit:
    return Unit(parts, gpus_by_type(parts), ())


def _single(demand: Demand) -> Unit:
    parts = (demand.part(demand.tasks[:1]),)
    return Unit(parts, gpus_by_type(parts), demand.tasks)


def right_missing(ledger: Ledger, job: Job, choice: Choice) -> Reason | None:
    """Why nothing of the job has a right to the GPUs of this choice now; that of its smallest unit."""
    reasons = [_unit_right_missing(ledger, job, unit) for unit in reversed(choice.units)]
    return reasons[0] if all(reasons) else None


def _unit_right_missing(ledger: Ledger, job: Job, unit: Unit) -> Reason | None:
    """The quota, or what may be lent."""
    for cell_type, needed in unit.needed.items():
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
            found = place(ledger, idle, job, choice, allowed)
            if found:
                return found
    return ()


def dominant(ledger: Ledger, idle: Ledger, job: Job, choices: Sequence[Choice], allowed: int) -> Reason:
    """Why a job that must wait does: of its choices and units the reason of the one nearest to a start."""
    reasons = []
    for choice in choices:
        for unit in reversed(choice.units):
            reason = _unit_right_missing(ledger, job, unit)
            if reason is None:
                preferred = _preferred(idle, job, unit, allowed)
                reason = explain.no_room(ledger, unit.parts, preferred, allowed)
            reasons.append(reason)
    return max(reasons, key=lambda one: NEARNESS[one.code], default=explain.no_gpus_owned(job.vc))


def _preferred(idle: Ledger, job: Job, unit: Unit, allowed: int) -> int:
    """The nodes without those the job avoids, where the rest could hold the unit if nothing else ran."""
    if not job.avoid_nodes:
        return allowed
    rest = allowed & ~idle.layout.mask_of(job.avoid_nodes)
    return allowed if find(idle, unit.parts, rest) is None else rest


def _place_gang(ledger: Ledger, idle: Ledger, job: Job, choice: Choice, allowed: int) -> tuple[TaskPlacement, ...]:
    (unit,) = choice.units
    spots = find(ledger, unit.parts, _preferred(idle, job, unit, allowed))
    return bind(ledger, job, spots) if spots else ()


def _place_singly(ledger: Ledger, idle: Ledger, job: Job, choice: Choice, allowed: int) -> tuple[TaskPlacement, ...]:
    """As many tasks as find a right and a place, the largest first."""
    scratch = ledger.copy()
    placed: list[TaskPlacement] = []
    for unit in choice.units:
        nodes = _preferred(idle, job, unit, allowed)
        for task in unit.tasks:
            part = unit.parts[0].part((task,))
            spots = None if _unit_right_missing(scratch, job, unit) else find(scratch, (part,), nodes)
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
