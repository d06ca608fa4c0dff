"""The engine: one state, changed by what happened, asked for decisions that change nothing."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from scheduling import explain
from scheduling.admission import JobRefused, Refusal, refusals_on
from scheduling.borrowing import may_borrow
from scheduling.caps import cap_passed, is_capped, within_caps
from scheduling.cells import Cluster, Node, Order
from scheduling.deciding import Desk, NodeIds
from scheduling.decisions import Demotion, Plan, Preempt, Promotion, Start, Wait
from scheduling.hived import Views
from scheduling.jobs import Job, LeafUse, Standing, TaskPlacement, TaskRef
from scheduling.layout import Layout
from scheduling.ledger import Ledger, PlacementConflict
from scheduling.lending import Loans
from scheduling.ordering import Queue
from scheduling.planning import make_plan
from scheduling.preemption import Costs, give_back
from scheduling.shapes import Shapes, apart
from scheduling.snapshot import Claim, Running, RunningTask, Snapshot, Usage
from scheduling.state import Memory, State, lent
from scheduling.telling import alone
from scheduling.usage import Book

ALL: Final[NodeIds] = None
"""Every node."""


class UnknownJob(KeyError):
    """The engine has no job of this id (`job`), neither waiting nor running."""

    def __init__(self, job: str) -> None:
        super().__init__(job)
        self.job = job


class Engine:
    """Jobs, cells and who holds what; the same for a tick, a simulation, a what-if and a replay.

    What happened goes in by `submit`, `start`, `finish`, `claim`, `release`, `promote`, `demote`, `set_node` and
    `reconfigure`; `decide`, `plan` and `explain` answer and change nothing. `advance` plans and carries the plan
    out here. Every answer follows from the snapshot and the arguments alone: not from history, a clock or chance.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._running: dict[str, Running] = {}
        self._waiting: dict[str, Job] = {}
        self._claims: dict[str, dict[str, Claim]] = {}
        self._demotions: dict[str, Demotion] = {}
        self._reservations: tuple[str, ...] = ()
        self._ranks: dict[str, dict[int, int]] = {}
        self._views: Views = {}
        self._book = Book(cluster)
        self._settle(cluster)

    # What happened

    def submit(self, job: Job) -> None:
        """The job waits from now on; in place of what waited under its id. Raises JobRefused."""
        found = self._refusals(job)
        if found:
            raise JobRefused(found)
        self._enqueue(job)

    def start(self, start: Start) -> None:
        """The placed tasks run. Raises PlacementConflict when a cell or a task of it is taken already."""
        job = start.job
        self._release(start.releases)
        for name in start.demotes:
            self.demote(Demotion(name, job.id), start.at_ms)
        self._check_start(job.id, start.placements)
        ledger = self._ledger
        tasks = {placement.task for placement in start.placements}
        claimed = [leaf for leaf, claim in self._claims.get(job.id, {}).items() if claim.task in tasks]
        ledger.begin()
        try:
            for leaf in claimed:
                ledger.unclaim(job.id, leaf)
            for placement in start.placements:
                ledger.hold(job.id, placement)
        except PlacementConflict:
            ledger.take_back()
            raise
        ledger.keep()
        for leaf in claimed:
            del self._claims[job.id][leaf]
        if not self._claims.get(job.id):
            self._drop_claims(job.id)
        self._note_running(job, [RunningTask(placement, start.at_ms) for placement in start.placements])
        self._no_longer_wanted(job.id, tasks)

    def finish(self, job_id: str, tasks: Iterable[TaskRef] | None = None, now: int | None = None) -> None:
        """These tasks gave their places back; with None the job is over, waiting tasks included.

        A job that is over holds back none of the jobs that wait for it. With the moment `now` (ms) what the tasks
        used counts against their user from here on; without, whoever calls notes it. Raises UnknownJob.
        """
        running = self._running.get(job_id)
        if running is None and job_id not in self._waiting:
            raise UnknownJob(job_id)
        if running is not None:
            self._end_tasks(running, None if tasks is None else set(tasks), now)
        if tasks is None:
            self._waiting.pop(job_id, None)
            self._place_in_queue(job_id)
            self._release(list(self._claims.get(job_id, ())))
            for job in [one for one in self._waiting.values() if job_id in one.after]:
                self._enqueue(replace(job, after=tuple(one for one in job.after if one != job_id)))

    def claim(self, claim: Claim) -> None:
        """Keep a leaf cell for the claimant, in place of an earlier claim on it."""
        self.release(claim.leaf)
        use = LeafUse(claim.leaf, claim.virtual_cell, Standing.GUARANTEED)
        self._ledger.make_way(use)
        self._ledger.claim(claim.claimant, use)
        if claim.claimant not in self._claims:
            self._rank(self._waiting.get(claim.claimant), 1)
        self._claims.setdefault(claim.claimant, {})[claim.leaf] = claim

    def release(self, leaf: str) -> None:
        """Give up the claim on a leaf cell; without effect where there is none. Its holder has it by right again."""
        self._release([leaf])

    def preempt(self, preempt: Preempt) -> None:
        """The victims are told to leave and their cells are claimed."""
        self._release(preempt.releases)
        for name in preempt.demotes:
            self.demote(Demotion(name, preempt.job.id), preempt.at_ms)
        holders = {use.leaf: victim for victim, uses in self._holding(preempt).items() for use in uses}
        wanted = [(use, placement.task) for placement in preempt.placements for use in placement.leaves]
        for use, _ in wanted:
            self.release(use.leaf)
            self._ledger.make_way(use)
        for use, task in wanted:
            self.claim(Claim(use.leaf, preempt.job.id, holders.get(use.leaf), use.virtual_cell or "", task))
        for gone in preempt.victims:
            self.leave(gone.job, gone.tasks)

    def leave(self, job_id: str, tasks: Iterable[TaskRef]) -> None:
        """The end of these running tasks is ordered; they hold their cells until `finish`. Raises UnknownJob."""
        running = self._running.get(job_id)
        if running is None:
            raise UnknownJob(job_id)
        going = set(tasks)
        every = tuple(replace(one, leaving=one.leaving or one.placement.task in going) for one in running.tasks)
        self._set_running(replace(running, tasks=every))

    def saved(self, job_id: str, at_ms: int) -> None:
        """A running job saved its work. Raises UnknownJob."""
        running = self._running.get(job_id)
        if running is None:
            raise UnknownJob(job_id)
        self._running[job_id] = replace(
            running, tasks=tuple(replace(one, checkpoint_ms=at_ms) for one in running.tasks)
        )

    def promote(self, promotion: Promotion, now: int | None = None) -> None:
        """Borrowed tasks of a job are inside its quota from now (ms) on. Raises PlacementConflict, UnknownJob."""
        running = self._running.get(promotion.job)
        if running is None:
            raise UnknownJob(promotion.job)
        self._ledger.begin()
        try:
            for placement in promotion.placements:
                self._ledger.unlend(promotion.job, placement)
        except PlacementConflict:
            self._ledger.take_back()
            raise
        self._ledger.keep()
        new = {placement.task: placement for placement in promotion.placements}
        tasks = tuple(
            replace(one, placement=new[one.placement.task], right_ms=now) if one.placement.task in new else one
            for one in running.tasks
        )
        self._set_running(replace(running, tasks=tasks))
        if not any(use.virtual_cell is None for task in tasks for use in task.placement.leaves):
            self._demotions.pop(promotion.job, None)

    def demote(self, demotion: Demotion, now: int | None = None) -> None:
        """A running job is on loan from now (ms) on; what it used until then counts. Raises UnknownJob."""
        running = self._running.get(demotion.job)
        if running is None:
            raise UnknownJob(demotion.job)
        for task in running.tasks:
            self._ledger.lend(demotion.job, task.placement)
        self._fallen.pop(demotion.job, None)
        self._demotions[demotion.job] = demotion
        if now is not None:
            for task in running.tasks:
                self._book.ended(running.job, task, now)
        self._set_running(lent(running, now))

    def note(self, usage: Usage) -> None:
        """A task that ended used this much; it counts against its user for a while."""
        self._book.note(usage)

    def set_node(self, node: Node) -> None:
        """The node is new or has changed: its state, its health, its size. Raises ClusterError."""
        cluster = self._layout.cluster
        nodes = {one.id: one for one in cluster.nodes} | {node.id: node}
        self.reconfigure(replace(cluster, nodes=tuple(nodes[one] for one in sorted(nodes))))

    def reconfigure(self, cluster: Cluster) -> None:
        """Nodes, cells or quotas changed. Running jobs go on; those that fit no longer are demoted by the next plan."""
        self._book.reconfigure(cluster)
        self._settle(cluster)

    # What to do

    def decide(self, job: Job, now: int, nodes: NodeIds = ALL, may_preempt: bool = True) -> Start | Preempt | Wait:
        """What would become of this job alone, asked at `now` (ms): the queue's order is not looked at.

        `nodes` limits where it may go; `may_preempt` allows Preempt as an answer.
        """
        reason = explain.hold(job, self._layout)
        if reason is not None:
            return Wait(job, reason)
        state = self._state(now)
        shape = self._shapes.of(job)
        reason = None if job.opportunistic else cap_passed(state, job, shape)
        if reason is not None:
            return Wait(job, reason)
        if job.opportunistic:
            limited = not self._layout.policy.hived
            choices = (one for one in apart(shape.choices, job.gang) if not limited or may_borrow(state, job, one))
            answers: Iterator[Start | Preempt | None] = (state.desk.borrowed(job, one, nodes) for one in choices)
        else:
            ask = partial(state.desk.guaranteed, job, nodes=nodes, may_preempt=may_preempt)
            one = is_capped(state, job.vc)
            answers = (ask(choice, one=one) for choice in within_caps(state, job, shape.choices))
        for answer in answers:
            if answer is not None:
                return answer
        return Wait(job, alone(state, job, shape, nodes))

    def plan(self, now: int) -> Plan:
        """All decisions of this moment (ms), each as if those before it were carried out."""
        self._ledger.begin()
        try:
            return make_plan(self._state(now), now, told=True, fallen=self._fallen)
        finally:
            self._ledger.take_back()

    def advance(self, now: int) -> Plan:
        """Plan without reasons, and carry the plan out here; whoever calls ends the victims by `finish`."""
        self._ledger.begin()
        try:
            plan = make_plan(self._state(now), now, told=False, fallen=self._fallen)
        finally:
            self._ledger.take_back()
        self.carry_out(plan)
        return plan

    def carry_out(self, plan: Plan) -> None:
        """All of a plan of this state."""
        for leaf in plan.releases:
            self.release(leaf)
        for demotion in plan.demotions:
            self.demote(demotion, plan.at_ms)
        for answer in plan.answers:
            if isinstance(answer, Start):
                self.start(answer)
            else:
                self.preempt(answer)
        for promotion in plan.promotions:
            self.promote(promotion, plan.at_ms)
        self._reservations = plan.reservations

    def explain(self, job_id: str, now: int) -> Start | Preempt | Wait:
        """What the plan says of a job: why (what of it) waits and at which place, else where it starts.

        Raises UnknownJob for a job that does not wait.
        """
        if job_id not in self._waiting:
            raise UnknownJob(job_id)
        plan = self.plan(now)
        answers: list[Start | Preempt | Wait] = [*plan.waits, *plan.preemptions, *plan.starts]
        return next(one for one in answers if one.job.id == job_id)

    def look(self, job: Job, nodes: NodeIds = ALL) -> None:
        """Under the policy `hived` a job is being asked about: the one thing that is remembered of that is the order
        of the (virtual) nodes, from which HiveD goes on (`scheduling.hived.Views`)."""
        self._state(0).desk.look(job, self._shapes.of(job), nodes)

    # All of it, as data

    def snapshot(self) -> Snapshot:
        """Everything known, in the order of ids."""
        claims = [claim for claims in self._claims.values() for claim in claims.values()]
        return Snapshot(
            cluster=self._layout.cluster,
            running=tuple(self._running[one] for one in sorted(self._running)),
            waiting=tuple(self._waiting[one] for one in sorted(self._waiting)),
            claims=tuple(sorted(claims, key=lambda claim: claim.leaf)),
            demotions=tuple(self._demotions[one] for one in sorted(self._demotions)),
            usage=self._book.rows(),
            reservations=self._reservations,
        )

    @classmethod
    def restore(cls, snapshot: Snapshot) -> "Engine":
        """The engine that has this snapshot. Raises PlacementConflict when two tasks hold one leaf."""
        engine = cls(snapshot.cluster)
        engine._reservations = snapshot.reservations
        engine._demotions = {one.job: one for one in snapshot.demotions}
        engine._running = {one.job.id: one for one in snapshot.running}
        for claim in snapshot.claims:
            engine._claims.setdefault(claim.claimant, {})[claim.leaf] = claim
        for job in snapshot.waiting:
            engine._waiting[job.id] = job
        engine._enter_all()
        for row in snapshot.usage:
            engine._book.note(row)
        for running in snapshot.running:
            engine._book.update(running.job, running.tasks)
        for name in sorted({*engine._running, *engine._waiting}):
            engine._place_in_queue(name)
        return engine

    # Keeping the books

    def _settle(self, cluster: Cluster) -> None:
        """Everything that follows from the cluster, made anew, with who holds what entered again."""
        self._layout = Layout(cluster)
        self._shapes = Shapes(self._layout)
        self._idle = Ledger(self._layout)
        self._served: Ledger | None = None
        self._memory = Memory()
        self._holdable: dict[int, bool] = {}
        self._refused: dict[tuple[int, int, bool], tuple[Refusal, ...]] = {}
        self._stands: dict[str, Queue] = {}
        self._queues: dict[str, Queue] = {}
        self._opportunistic: dict[str, Queue] = {}
        self._enter_all()
        for running in self._running.values():
            self._book.update(running.job, running.tasks)
        for name in sorted({*self._running, *self._waiting}):
            self._place_in_queue(name)

    def _enter_all(self) -> None:
        """Who runs and who claims, into an empty ledger. Guaranteed jobs whose virtual cells are no longer to be
        had are on loan from now on (`_fallen`): of several, those of lower priority and later submission.
        """
        self._ledger = Ledger(self._layout)
        self._fallen: dict[str, Demotion] = {}
        self._ranks = {}
        claimed = {leaf for claims in self._claims.values() for leaf in claims}
        virtual = {claim.virtual_cell for claims in self._claims.values() for claim in claims.values()}
        order = sorted(
            self._running.values(),
            key=lambda one: (-one.job.priority, one.job.submitted_ms, one.job.order_id, one.job.id),
        )
        for running in order:
            placements = [_without(task.placement, claimed, virtual) for task in running.tasks]
            if not self._hold_all(running.job.id, placements):
                self._fallen[running.job.id] = Demotion(running.job.id, "quota")
                self._running[running.job.id] = lent(running)
                for task in self._running[running.job.id].tasks:
                    self._ledger.hold(running.job.id, task.placement)
        for claimant in sorted(self._claims):
            for claim in list(self._claims[claimant].values()):
                try:
                    self._ledger.begin()
                    self._ledger.claim(claimant, LeafUse(claim.leaf, claim.virtual_cell, Standing.GUARANTEED))
                    self._ledger.keep()
                except PlacementConflict:
                    self._ledger.take_back()
                    self._ledger.claim(claimant, LeafUse(claim.leaf, None, Standing.GUARANTEED))
        for running in self._running.values():
            self._rank(running.job, 1)
        for claimant in self._claims:
            self._rank(self._waiting.get(claimant), 1)
        self._loans = Loans(self._layout, self._running)

    def _hold_all(self, job: str, placements: Iterable[TaskPlacement]) -> bool:
        """All tasks of a job with the virtual cells they have; nothing of it when these are not to be had."""
        self._ledger.begin()
        try:
            for placement in placements:
                gone = any(
                    use.virtual_cell is not None and self._layout.virtual_leaf(use.virtual_cell) is None
                    for use in placement.leaves
                    if use.leaf in self._layout.leaf_at
                )
                if gone:
                    raise PlacementConflict(placement.node)
                self._ledger.hold(job, placement)
        except PlacementConflict:
            self._ledger.take_back()
            return False
        self._ledger.keep()
        return True

    def _state(self, now: int) -> State:
        running, claims = self._running.copy(), {name: dict(one) for name, one in self._claims.items()}
        claimants = {name: self._waiting[name] for name in claims if name in self._waiting}
        loans = self._loans.copy()
        costs = Costs(running, loans.shares, now, self._layout.policy.unsaved_cap_ms)
        desk = Desk(self._ledger, self._idle, running, claims, claimants, costs, self._lowest, now, self._holdable)
        desk.views = self._views
        return State(
            desk, self._shapes, self._book.shares(now), loans, self._queues, self._opportunistic, running,
            self._waiting, claims, claimants, self._demotions, self._reservations, self._layout.cluster.leaf_types,
            self._memory,
        )  # fmt: skip

    def _refusals(self, job: Job) -> tuple[Refusal, ...]:
        """Equal jobs are refused alike: asked once for each shape."""
        shape = self._shapes.of(job)
        if self._served is None:
            self._served = Ledger(self._layout).all_in_service()
        key = (shape.number, job.priority, job.id in job.after)
        if key not in self._refused:
            self._refused[key] = refusals_on(self._served, shape, job)
        return self._refused[key]

    def _lowest(self, vc: str) -> int:
        return min(self._ranks.get(vc) or {1 << 30: 1})

    def _rank(self, job: Job | None, change: int) -> None:
        if job is None:
            return
        ranks = self._ranks.setdefault(job.vc, {})
        ranks[job.priority] = ranks.get(job.priority, 0) + change
        if not ranks[job.priority]:
            del ranks[job.priority]

    def _enqueue(self, job: Job) -> None:
        self._waiting[job.id] = job
        self._place_in_queue(job.id)

    def _place_in_queue(self, name: str) -> None:
        """Into the queue where it belongs: waiting jobs, and guaranteed ones that run on loan."""
        stands = self._stands.pop(name, None)
        if stands is not None:
            stands.remove(name)
        running = self._running.get(name)
        job = self._waiting.get(name)
        if job is None and running is not None and not running.job.opportunistic and _on_loan(running):
            job = replace(running.job, wanted=tuple(task.placement.task for task in running.tasks))
        if job is not None:
            queues = self._opportunistic if job.opportunistic else self._queues
            user = "" if self._layout.policy.order is Order.SUBMISSION else job.user
            self._stands[name] = queues.setdefault(job.vc, Queue())
            self._stands[name].add(job, user, self._shapes.of(job).number)

    def _no_longer_wanted(self, job_id: str, tasks: set[TaskRef]) -> None:
        job = self._waiting.get(job_id)
        if job is None:
            return
        left = tuple(task for task in job.wanted if task not in tasks)
        if left:
            self._waiting[job_id] = replace(job, wanted=left)
        else:
            del self._waiting[job_id]
        self._place_in_queue(job_id)

    def _note_running(self, job: Job, tasks: Iterable[RunningTask]) -> None:
        before = self._running.get(job.id)
        every = sorted([*(before.tasks if before else ()), *tasks], key=lambda task: task.placement.task)
        if before is None:
            self._rank(job, 1)
        self._set_running(Running(replace(job, wanted=()), tuple(every)))

    def _set_running(self, running: Running) -> None:
        """A running job's tasks and places as they are now; without tasks it runs no more."""
        name = running.job.id
        before = self._running.get(name)
        for task in before.tasks if before else ():
            self._loans.book(running.job, task.placement, -1)
        for task in running.tasks:
            self._loans.book(running.job, task.placement, 1)
            if task.leaving:
                self._loans.leave(running.job, task.placement)
        self._book.update(running.job, running.tasks)
        if running.tasks:
            self._running[name] = running
        else:
            del self._running[name]
            self._demotions.pop(name, None)
            self._rank(running.job, -1)
        self._place_in_queue(name)

    def _end_tasks(self, running: Running, tasks: set[TaskRef] | None, now: int | None) -> None:
        stay = []
        for task in running.tasks:
            if tasks is not None and task.placement.task not in tasks:
                stay.append(task)
                continue
            if now is not None:
                self._book.ended(running.job, task, now)
            self._ledger.release(running.job.id, task.placement)
            for use in task.placement.leaves:
                for claims in self._claims.values():
                    claim = claims.get(use.leaf)
                    if claim is not None and claim.victim == running.job.id:
                        claims[use.leaf] = replace(claim, victim=None)
        self._set_running(replace(running, tasks=tuple(stay)))

    def _release(self, leaves: Iterable[str]) -> None:
        """Give up these claims; then the victims that are still there have their virtual cells again."""
        given_up = []
        for leaf in leaves:
            for claimant, claims in list(self._claims.items()):
                claim = claims.pop(leaf, None)
                if claim is not None:
                    given_up.append(claim)
                    self._ledger.unclaim(claimant, leaf)
                    if not claims:
                        self._drop_claims(claimant)
        give_back(self._ledger, self._running, given_up)

    def _drop_claims(self, claimant: str) -> None:
        if self._claims.pop(claimant, None) is not None:
            self._rank(self._waiting.get(claimant), -1)

    def _holding(self, preempt: Preempt) -> dict[str, list[LeafUse]]:
        """The wanted leaves that somebody holds, by holder."""
        found: dict[str, list[LeafUse]] = {}
        for placement in preempt.placements:
            for use in placement.leaves:
                at = self._layout.leaf_at[use.leaf]
                for job in self._ledger.holders(at[0], 1 << at[1]):
                    found.setdefault(job, []).append(use)
        return found

    def _check_start(self, job_id: str, placements: tuple[TaskPlacement, ...]) -> None:
        running = self._running.get(job_id)
        placed = {task.placement.task for task in running.tasks} if running else set()
        claimed = {leaf for name, claims in self._claims.items() if name != job_id for leaf in claims}
        for placement in placements:
            if placement.task in placed:
                raise PlacementConflict(f"{job_id}/{placement.role}/{placement.index}")
            for use in placement.leaves:
                if use.leaf in claimed:
                    raise PlacementConflict(use.leaf)


def _without(placement: TaskPlacement, leaves: set[str], virtual: set[str]) -> TaskPlacement:
    """The place of a task without the virtual cells that others have claimed."""
    uses = tuple(
        LeafUse(use.leaf, None, Standing.BORROWED) if use.leaf in leaves or use.virtual_cell in virtual else use
        for use in placement.leaves
    )
    return replace(placement, leaves=uses)


def _on_loan(running: Running) -> bool:
    return any(use.virtual_cell is None for task in running.tasks for use in task.placement.leaves)
