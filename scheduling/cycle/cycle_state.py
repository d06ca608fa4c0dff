"""What a cycle reads and changes, and its decisions as they are made."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from scheduling.cells.claims import needs_of
from scheduling.cells.request import Choice, JobShape, JobShapes
from scheduling.cycle.backfill import Reservation
from scheduling.cycle.memory import CycleMemory
from scheduling.model.cluster import Order
from scheduling.model.job import Job, LeafUse, Standing, TaskPlacement, TaskRef
from scheduling.model.plan import Demotion, Preempt, Promotion, Reason, Start
from scheduling.model.snapshot import Claim, Running, RunningTask
from scheduling.placement.placer import Placer
from scheduling.placement.virtual_placement import ReservedCells
from scheduling.preemption.victim_cost import give_back, victims
from scheduling.queue.caps import LimitUsage
from scheduling.queue.elastic_jobs import ElasticJobs
from scheduling.queue.loan_limits import Loans
from scheduling.queue.queue import OrderKey, Queue, Rank, submission
from scheduling.queue.usage_history import UserShares, amounts_of


@dataclass(slots=True)
class QueueProgress:
    """How far a cycle has come in one virtual cluster's queue.

    `reserved`: virtual leaves of earlier jobs that run on loan and cannot move into them yet. `blocked_chains`: an
    earlier job waits for them. `blocked_behind`: from this place on jobs that want only these chains are skipped.
    `kept`: reservations by chain.
    """

    reserved: ReservedCells
    blocked_chains: set[str] = field(default_factory=set)
    blocked_behind: tuple[Rank, frozenset[str]] | None = None
    kept: dict[str, Reservation] = field(default_factory=dict)
    ahead: "Ahead" = field(default_factory=lambda: Ahead())


@dataclass(slots=True)
class JobsAhead:
    """Counts of waiting jobs that want the same chains: all, those of higher priority, and by share those of the
    priority whose turn it is. `near`: the other sets of chains that have one in common with theirs."""

    near: list[frozenset[str]]
    all: int = 0
    higher: int = 0
    alike: dict[float, int] = field(default_factory=dict)


LED = -1.0
"""Stands in for a share if the job's place was set by hand (`Job.led`): then no share counts."""

Counts = tuple[int, int, int, int, int]
"""How many jobs are ahead: all, by priority, by share, by hand, by cells that are kept."""


class Ahead:
    """Counts the waiting jobs ahead of each, by the chains that they want."""

    def __init__(self) -> None:
        self._by_chains: dict[frozenset[str], JobsAhead] = {}
        self._priority: int | None = None
        self._kept: list[tuple[float, OrderKey, frozenset[str]]] = []

    def join(self, job: Job, share: float, chains: frozenset[str], *, kept: bool = False) -> Counts:
        """Enters the next job in order; returns how many ahead share a chain with it, and of them why they are ahead.
        `kept`: it leads its priority, since cells are kept for it."""
        if job.priority != self._priority:
            self._priority = job.priority
            self._kept.clear()
            for one in self._by_chains.values():
                one.higher = one.all
                one.alike.clear()
        mine = self._by_chains.get(chains) or self._first_of(chains)
        ahead, higher, alike = mine.all, mine.higher, mine.alike.get(share, 0)
        by_hand = mine.alike.get(LED, 0)
        mine.all, mine.alike[share] = ahead + 1, alike + 1
        for others in mine.near:
            one = self._by_chains[others]
            ahead += one.all
            higher += one.higher
            alike += one.alike.get(share, 0)
            by_hand += one.alike.get(LED, 0)
        if share == LED:
            return ahead, higher, 0, alike, 0
        place = share, submission(job)
        overtaken = [one[0] for one in self._kept if one[:2] > place and not one[2].isdisjoint(chains)]
        if kept:
            self._kept.append((*place, chains))
        by_share = ahead - higher - alike - by_hand - sum(one != share for one in overtaken)
        return ahead, higher, by_share, by_hand, len(overtaken)

    def _first_of(self, chains: frozenset[str]) -> JobsAhead:
        near = [others for others in self._by_chains if not chains.isdisjoint(others)]
        for others in near:
            self._by_chains[others].near.append(chains)
        mine = self._by_chains[chains] = JobsAhead(near)
        return mine


class Unplaced(NamedTuple):
    """A job that does not start: its choices that are not blocked, how many are ahead, and its reason where that is
    known already."""

    job: Job
    shape: JobShape
    choices: tuple[Choice, ...]
    ahead: Counts | None = None
    reason: Reason | None = None


@dataclass(slots=True)
class CycleState:
    """Everything a cycle reads and changes."""

    placer: Placer
    shapes: JobShapes
    shares: UserShares
    loans: Loans
    queues: Mapping[str, Queue]
    opportunistic: Mapping[str, Queue]
    running: dict[str, Running]
    waiting: Mapping[str, Job]
    claims: dict[str, dict[str, Claim]]
    claimants: dict[str, Job]
    demotions: Mapping[str, Demotion]
    elastic: ElasticJobs
    reservations: Collection[str]
    leaf_types: Mapping[str, str]
    memory: "CycleMemory"
    limit_usage: LimitUsage


class Cycle:
    """The decisions of a cycle, each carried out at once on the state; the caller commits or rolls back.

    `left`: what still waits of jobs that started (None: nothing, or they have claims); `unplaced`: jobs that do not
    start; `busy`: virtual clusters for which something happened; `displaced`: jobs that had claimed a loan of their own
    virtual cluster, where somebody else is now.
    """

    def __init__(self, state: CycleState, now: int) -> None:
        self.state = state
        self.now = now
        self.fair = state.placer.allocator.layout.policy.order is Order.FAIR
        self.starts: list[Start] = []
        self.preemptions: list[Preempt] = []
        self.promotions: list[Promotion] = []
        self.releases: list[str] = []
        self.reservations: list[str] = []
        self.left: dict[str, Job | None] = {}
        self.unplaced: list[Unplaced] = []
        self.busy: set[str] = set()
        self.displaced: list[Job] = []

    def share(self, vc: str, user: str) -> float:
        """The user's share where it decides the order, else 0."""
        return self.state.shares.of(vc, user) if self.fair else 0.0

    def shares_of(self, vc: str) -> Callable[[str], float]:
        """The same as a function of the user."""
        return partial(self.state.shares.of, vc) if self.fair else _nothing

    def carry_out(self, answer: Start | Preempt) -> Job | None:
        """Carries the answer out; returns what still waits of the job."""
        for leaf in answer.releases:
            for name in [one for one, claims in self.state.claims.items() if leaf in claims]:
                self.give_up(name)
        for name in answer.demotes:
            self.demote(name)
        if isinstance(answer, Start):
            return self.start(answer)
        answer = self._with_extras(answer)
        self.preemptions.append(answer)
        self.state.placer.lower.came(answer.job)
        claim_all(self.state, answer)
        for placement in answer.placements:
            self.charge(answer.job, placement)
        return self._rest(answer)

    def _with_extras(self, answer: Preempt) -> Preempt:
        """The extra tasks of an elastic gang end with it."""
        state, names = self.state, {victim.job for victim in answer.victims}
        for job in sorted(names & state.elastic.extras.keys()):
            more = [(one, task) for task, one in state.elastic.extras[job].items() if one not in names]
            answer = answer._replace(victims=(*answer.victims, *victims(state.running, more)))
        return answer

    def _rest(self, answer: Start | Preempt) -> Job | None:
        placed = {placement.task for placement in answer.placements}
        rest = tuple(task for task in answer.job.wanted if task not in placed)
        left = self.left[answer.job.id] = answer.job.wanting(rest) if rest else None
        return left

    def still_unplaced(self, unplaced: Unplaced) -> Unplaced | None:
        """The same for what still waits: a part of the job, or all of it, may have started on loan since."""
        job = self.left.get(unplaced.job.id, unplaced.job)
        if job is None or job is unplaced.job:
            return unplaced if job is not None else None
        shape, choices = self.choices_of_rest(job, unplaced.choices)
        return unplaced._replace(job=job, shape=shape, choices=choices)

    def choices_of_rest(self, rest: Job, choices: Iterable[Choice]) -> tuple[JobShape, tuple[Choice, ...]]:
        """The shape of what still waits of a job, and those of its choices that are of the same chains as these."""
        shape, chains = self.state.shapes.of(rest), {choice.chains for choice in choices}
        return shape, tuple(choice for choice in shape.choices if choice.chains in chains)

    def charge(self, job: Job, placement: TaskPlacement) -> None:
        """Adds the placement to its user's share, which decides who is served next."""
        amounts = amounts_of(placement, self.state.leaf_types)
        if self.fair and amounts and not job.opportunistic:
            self.state.shares.add(job.vc, job.user, amounts)

    def demote(self, name: str) -> None:
        """Puts the running job on loan."""
        state = self.state
        running = state.running[name]
        for task in running.tasks:
            state.placer.allocator.lend(name, task.placement)
        state.running[name] = lent(running)
        for task in state.running[name].tasks:
            state.loans.count(running.job, task.placement, 1)

    def start(self, start: Start, *, charged: bool = False) -> Job | None:
        """The tasks run; returns what still waits of the job. A job with claims is `charged` already."""
        state, job = self.state, start.job
        state.placer.lower.came(job)
        state.placer.costs.begun.add(job.id)
        self._convert(job.id, {placement.task for placement in start.placements})
        tasks = []
        for placement in start.placements:
            state.placer.allocator.allocate(job.id, placement)
            state.loans.count(job, placement, 1)
            state.limit_usage.change(job, leaves_of(placement), 1)
            if not charged:
                self.charge(job, placement)
            tasks.append(RunningTask(placement, self.now))
        before = state.running.get(job.id)
        state.running[job.id] = Running(job.wanting(()), (*(before.tasks if before else ()), *tasks))
        self.starts.append(start)
        return self._rest(start)

    def take_back(self, answer: Preempt) -> None:
        """Ends the loans of leaves that a parked job claims and now wants."""
        name, holder = answer.job.id, self.state.placer.allocator.holder
        claims = self.state.claims[name]
        self.state.claims[name] = {leaf: claim._replace(victim=holder(leaf)) for leaf, claim in claims.items()}
        answer = self._with_extras(answer)
        self.preemptions.append(answer)
        tell_to_leave(self.state, answer)

    def retract(self, start: Start) -> None:
        """Takes back the start, in this cycle, of a whole job."""
        state, job = self.state, start.job
        for placement in start.placements:
            state.placer.allocator.release(job.id, placement)
            state.loans.count(job, placement, -1)
            state.limit_usage.change(job, leaves_of(placement), -1)
        del state.running[job.id], self.left[job.id]
        state.placer.costs.begun.discard(job.id)
        self.starts.remove(start)

    def _convert(self, name: str, tasks: set[TaskRef]) -> None:
        """Drops the job's claims for tasks that start."""
        claims = self.state.claims.get(name, {})
        used = [leaf for leaf, claim in claims.items() if claim.task in tasks]
        if used:
            self.state.loans.claim(self.state.claimants[name], [claims[leaf] for leaf in used], -1)
        self.state.placer.allocator.unclaim(name, used)
        self.state.limit_usage.gone(name, used)
        for leaf in used:
            del claims[leaf]
        if not claims:
            self.state.claims.pop(name, None)
            self.state.claimants.pop(name, None)

    def give_up(self, name: str) -> None:
        """Releases all claims of a job; their victims have their virtual cells again until they are gone."""
        claims = self.state.claims.pop(name)
        if name in self.state.claimants:
            self.state.loans.claim(self.state.claimants[name], claims.values(), -1)
        self.state.placer.allocator.unclaim(name, claims)
        self.state.limit_usage.gone(name, claims)
        self.releases += claims
        self.state.claimants.pop(name, None)
        give_back(self.state.placer.allocator, self.state.running, (claims[leaf] for leaf in sorted(claims)))

    def promote(self, job: Job, placements: tuple[TaskPlacement, ...]) -> None:
        """Moves these tasks on loan into the quota."""
        state = self.state
        running = state.running[job.id]
        new = {placement.task: placement for placement in placements}
        for task in running.tasks:
            if task.placement.task in new:
                state.loans.count(job, task.placement, -1)
        for placement in placements:
            state.placer.allocator.unlend(job.id, placement)
        tasks = tuple(task._replace(placement=new.get(task.placement.task, task.placement)) for task in running.tasks)
        state.running[job.id] = running._replace(tasks=tasks)
        self.promotions.append(Promotion(job.id, placements))


def _nothing(user: str) -> float:
    return 0.0


def merged_by_job(preemptions: Iterable[Preempt]) -> tuple[Preempt, ...]:
    """One preemption for each job: a job that is no gang is answered task by task."""
    found: dict[str, Preempt] = {}
    for one in preemptions:
        before = found.get(one.job.id)
        if before is None:
            found[one.job.id] = one
            continue
        victims = {victim.job: victim for victim in before.victims}
        for victim in one.victims:
            tasks = {*victim.tasks, *(victims[victim.job].tasks if victim.job in victims else ())}
            victims[victim.job] = victim._replace(tasks=tuple(sorted(tasks)))
        found[one.job.id] = before._replace(
            placements=(*before.placements, *one.placements),
            victims=tuple(victims[name] for name in sorted(victims)),
            demotes=(*before.demotes, *one.demotes),
            releases=(*before.releases, *one.releases),
        )
    return tuple(found.values())


def claim_all(state: CycleState, answer: Preempt) -> None:
    """Claims every leaf of the preemptor's placement; its victims are leaving."""
    allocator, name = state.placer.allocator, answer.job.id
    mine: dict[str, Claim] = {}
    for placement in answer.placements:
        for use in placement.leaves:
            mine[use.leaf] = Claim(use.leaf, name, allocator.holder(use.leaf), use.virtual_cell or "", placement.task)
    uses = [LeafUse(claim.leaf, claim.virtual_cell, Standing.GUARANTEED) for claim in mine.values()]
    allocator.make_way(uses)
    allocator.claim(name, uses, needs_of(answer.job, mine.values()))
    before = state.claims.get(name, {})
    state.claims[name] = before | mine
    state.loans.claim(answer.job, mine.values(), 1)
    state.limit_usage.change(answer.job, mine.keys() - before.keys(), 1)
    state.claimants[name] = answer.job
    tell_to_leave(state, answer)


def tell_to_leave(state: CycleState, answer: Preempt) -> None:
    """Its victims are leaving."""
    allocator = state.placer.allocator
    for gone in answer.victims:
        running = state.running[gone.job]
        for task in running.tasks:
            if task.placement.task in gone.tasks:
                state.loans.leave(running.job, task.placement)
        state.running[gone.job] = leaving(running, gone.tasks)
        state.placer.costs.told_to_leave(allocator, gone.job)


def leaving(running: Running, going: Collection[TaskRef]) -> Running:
    """The same job with the end of these tasks ordered."""
    tasks = (
        RunningTask(one.placement, one.started_ms, one.checkpoint_ms, one.leaving or one.placement.task in going)
        for one in running.tasks
    )
    return Running(running.job, tuple(tasks))


def lent(running: Running, now: int | None = None) -> Running:
    """The same job with all its leaves borrowed; those that were not are so from `now` on."""
    tasks = []
    for task in running.tasks:
        leaves = tuple(LeafUse(use.leaf, None, Standing.BORROWED) for use in task.placement.leaves)
        right = task.right_ms if task.placement.leaves == leaves else now
        tasks.append(task._replace(placement=task.placement._replace(leaves=leaves), right_ms=right))
    return running._replace(tasks=tuple(tasks))


def leaves_of(placement: TaskPlacement) -> list[str]:
    """The GPUs of a task."""
    return [use.leaf for use in placement.leaves]
