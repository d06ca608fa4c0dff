"""The engine: jobs and cells in one state that events change, and the plans made of it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from scheduling.cells.allocator import Allocator
from scheduling.cells.claims import Claims, needs_of, parked_in
from scheduling.cycle.context import ClusterContext, EngineContext
from scheduling.cycle.cycle import Overtaken, make_plan
from scheduling.cycle.cycle_state import CycleState, leaving, lent
from scheduling.cycle.decide import decide
from scheduling.cycle.gc_pause import paused
from scheduling.cycle.memory import CycleMemory
from scheduling.cycle.restore import check_start, entered
from scheduling.cycle.sync import caught_up
from scheduling.diagnosis.doomed_cells import Doomed, doomed
from scheduling.diagnosis.feasible_at_submit import JobRefused
from scheduling.model import elastic
from scheduling.model.cluster import Cluster
from scheduling.model.description import Node
from scheduling.model.job import Job, LeafUse, Standing, TaskRef
from scheduling.model.plan import Demotion, Plan, Preempt, Promotion, Start, Wait
from scheduling.model.snapshot import Claim, Running, RunningTask, Snapshot, Usage
from scheduling.preemption.victim_cost import give_back
from scheduling.queue.job_index import JobIndex


class UnknownJob(LookupError):
    """The engine has no job of this id (`job`), neither waiting nor running."""

    def __init__(self, job: str) -> None:
        super().__init__(job)
        self.job = job


class Engine:
    """Jobs, cells and who has them; the same engine for a cycle, a simulation and a what-if.

    Events go in by `submit`, `start`, `finish`, `claim`, `release`, `promote`, `demote`, `set_node` and `reconfigure`;
    `decide`, `plan` and `explain` answer and change nothing; `advance` plans and carries the plan out here. Every
    answer follows from the snapshot and the arguments alone: not from history, a clock or chance.
    """

    _allocator: Allocator
    _without_quota: dict[str, Demotion]

    def __init__(self, start: Cluster | Snapshot) -> None:
        self._divider = elastic.Divider()
        with paused():
            self._load(start if isinstance(start, Snapshot) else Snapshot(start))

    # What happened

    def submit(self, job: Job) -> None:
        """The job waits from now on; in place of what waited under its id. Raises JobRefused."""
        found = self._context.refusals(job)
        if found:
            raise JobRefused(found)
        self._job_index.submit(job)

    def start(self, start: Start) -> None:
        """The placed tasks run. Raises PlacementConflict when a cell or a task of it is taken already."""
        for part in elastic.parts_of(start):
            self._start(part)

    def _start(self, start: Start) -> None:
        name = start.job.id
        self._give_way(start)
        check_start(start, self._job_index.running.get(name), self._claims)
        with self._allocator.transaction():
            if name in self._claims:
                self._allocator.unclaim(name, self._claimed_for(start))
            for placement in start.placements:
                self._allocator.allocate(name, placement)
        self._note_start(start)

    def finish(self, job_id: str, tasks: Iterable[TaskRef] | None = None, now: int | None = None) -> None:
        """These tasks gave their places back; with None the job is over, waiting tasks included.

        A job that is over holds back none of the jobs that wait for it. With the moment `now` (ms) what the tasks
        used counts against their user from here on; without, whoever calls notes it. Raises UnknownJob.
        """
        ended = None if tasks is None else set(tasks)
        for part in self._parts(job_id):
            self._end_tasks(part, ended, now)
        if ended is None:
            self._release(list(self._claims.of(job_id)))
            self._job_index.leave_queue(job_id)
            self._job_index.is_over(job_id)

    def claim(self, claim: Claim) -> None:
        """Keep a leaf cell for the claimant, in place of an earlier claim on it."""
        holder = self._allocator.holder(claim.leaf) if claim.leaf in self._context.layout.leaf_at else None
        known = holder is not None and elastic.whole_name(holder) == claim.victim
        self._claim_all(claim.claimant, [claim._replace(victim=holder) if known else claim])

    def release(self, leaf: str) -> None:
        """Give up the claim on a leaf cell; without effect where there is none. Its holder has it by right again."""
        self._release([leaf])

    def preempt(self, preempt: Preempt) -> None:
        """The victims are told to leave and their cells are claimed."""
        name = preempt.job.id
        self._give_way(preempt)
        self._claim_all(name, self._claims_of(preempt))
        for gone in preempt.victims:
            self.leave(gone.job, gone.tasks)

    def _give_way(self, answer: Start | Preempt) -> None:
        """Releases the claims and demotes the jobs that the answer names."""
        if answer.releases:
            self._release(answer.releases)
        for demoted in answer.demotes:
            self.demote(Demotion(demoted, answer.job.id), answer.at_ms)

    def leave(self, job_id: str, tasks: Iterable[TaskRef]) -> None:
        """The end of these running tasks is ordered; they hold their cells until `finish`. Raises UnknownJob."""
        going = set(tasks)
        for part in self._parts(job_id):
            self._job_index.set_leaving(leaving(part, going))

    def saved(self, job_id: str, at_ms: int) -> None:
        """A running job saved its work. Raises UnknownJob."""
        for part in self._parts(job_id):
            tasks = tuple(one._replace(checkpoint_ms=at_ms) for one in part.tasks)
            self._job_index.running[part.job.id] = part._replace(tasks=tasks)

    def promote(self, promotion: Promotion, now: int | None = None) -> None:
        """Borrowed tasks of a job are inside its quota from now (ms) on. Raises PlacementConflict, UnknownJob."""
        running = self._runs(promotion.job)
        with self._allocator.transaction():
            for placement in promotion.placements:
                self._allocator.unlend(promotion.job, placement)
        new = {placement.task: placement for placement in promotion.placements}
        tasks = tuple(
            one._replace(placement=new[one.placement.task], right_ms=now) if one.placement.task in new else one
            for one in running.tasks
        )
        self._job_index.set_running(running._replace(tasks=tasks))
        if not any(use.virtual_cell is None for task in tasks for use in task.placement.leaves):
            self._job_index.demotions.pop(promotion.job, None)

    def demote(self, demotion: Demotion, now: int | None = None) -> None:
        """A running job is on loan from now (ms) on; what it used until then counts. Raises UnknownJob."""
        running = self._runs(demotion.job)
        for task in running.tasks:
            self._allocator.lend(demotion.job, task.placement)
        self._without_quota.pop(demotion.job, None)
        self._job_index.demotions[demotion.job] = demotion
        if now is not None:
            for task in running.tasks:
                self._job_index.usage_history.ended(running.job, task, now)
        self._job_index.set_running(lent(running, now))

    def note(self, usage: Usage) -> None:
        """A task that ended used this much; it counts against its user for a while."""
        self._job_index.usage_history.note(usage)

    def set_node(self, node: Node) -> None:
        """The node is new or has changed: its state, its health, its size. Raises ClusterError."""
        cluster = self._context.layout.cluster
        nodes = {one.id: one for one in cluster.nodes} | {node.id: node}
        self.reconfigure(replace(cluster, nodes=tuple(nodes[one] for one in sorted(nodes))))

    def reconfigure(self, cluster: Cluster) -> None:
        """Nodes, cells or quotas changed. Running jobs go on; those that fit no longer are demoted by the next plan."""
        self._job_index.usage_history.reconfigure(cluster)
        self._settle(cluster)

    # What to do

    def decide(self, job: Job, now: int, may_preempt: bool = True) -> Start | Preempt | Wait:
        """What would become of this job alone, at `now` (ms): the queue's order is not looked at. `may_preempt` allows
        Preempt as an answer. It is about the gang of an elastic job, and where that runs, about the next extra task."""
        asked = elastic.gang_of(job)
        asked = asked if asked.wanted or not job.wanted else elastic.extra_job(job, job.wanted[0])
        answer = decide(self._engine_context, lambda: self._state(now, to_change=False), asked, now, may_preempt)
        answer = elastic.whole_preempt(answer) if isinstance(answer, Preempt) else answer
        return answer if asked is job else answer._replace(job=job)

    def plan(self, now: int, *, with_reasons: bool = True) -> Plan:
        """All decisions of this moment (ms), each as if those before it were carried out. Without reasons it has no
        `waits` and takes half the time or less."""
        try:
            plan = self._plan(now, with_reasons)
        except Overtaken:
            self._memory = CycleMemory()
            plan = self._plan(now, with_reasons)
        return elastic.whole_plan(plan, self._job_index.elastic.growing)

    def _plan(self, now: int, with_reasons: bool) -> Plan:
        before = self._memory.kept()
        self._allocator.begin()
        try:
            with paused():
                return make_plan(self._state(now), now, with_reasons=with_reasons, without_quota=self._without_quota)
        finally:
            self._allocator.rollback()
            self._memory = before

    def advance(self, now: int) -> Plan:
        """Plans without reasons and carries the plan out here; the caller ends the victims by `finish`."""
        try:
            return self._advance(now)
        except Overtaken:
            self._memory = CycleMemory()
            return self._advance(now)

    def _advance(self, now: int) -> Plan:
        with paused():
            as_it_is = False  # a plan that only starts and preempts leaves the allocator as it is to be
            self._allocator.begin()
            try:
                plan = make_plan(self._state(now), now, with_reasons=False, without_quota=self._without_quota)
                changes = any(one.demotes or one.releases for one in plan.answers)
                as_it_is = not (changes or plan.releases or plan.demotions or plan.promotions)
            finally:
                (self._allocator.commit if as_it_is else self._allocator.rollback)()
            whole = elastic.whole_plan(plan, self._job_index.elastic.growing)
            (self._note_all if as_it_is else self.carry_out)(plan)
        return whole

    def carry_out(self, plan: Plan) -> None:
        """Carries out all of a plan of this state."""
        for leaf in plan.releases:
            self.release(leaf)
        for demotion in plan.demotions:
            self.demote(demotion, plan.at_ms)
        for answer in plan.answers:
            self._give_way(answer)
        for answer in plan.answers:
            alone = answer._replace(demotes=(), releases=())  # what one gave up another may have claimed since
            if isinstance(alone, Start):
                self.start(alone)
            else:
                self.preempt(alone)
        for promotion in plan.promotions:
            self.promote(promotion, plan.at_ms)
        self._reservations = plan.reservations

    def explain(self, job_id: str, now: int) -> Start | Preempt | Wait:
        """What the plan says of a job: why (what of it) waits and at which place, else where it starts.

        Raises UnknownJob for a job that does not wait.
        """
        if job_id not in self._job_index.waiting:
            raise UnknownJob(job_id)
        plan = self.plan(now)
        answers: list[Start | Preempt | Wait] = [*plan.waits, *plan.preemptions, *plan.starts]
        return next(one for one in answers if one.job.id == job_id)

    def doomed(self) -> tuple[Doomed, ...]:
        """Quota cells that could only be bound to bad hardware now (HiveD's doomed bad cells)."""
        return doomed(self._allocator)

    # All of it, as data

    def snapshot(self) -> Snapshot:
        """Everything known, in the order of ids."""
        job_index = self._job_index
        return Snapshot(
            cluster=self._context.layout.cluster,
            running=elastic.whole_running(job_index.running, job_index.elastic.wholes),
            waiting=elastic.whole_waiting(job_index.waiting, job_index.elastic.growing),
            claims=elastic.whole_claims(self._claims.all()),
            demotions=tuple(job_index.demotions[one] for one in sorted(job_index.demotions)),
            usage=job_index.usage_history.rows(),
            reservations=self._reservations,
            freed=job_index.freed,
        )

    @classmethod
    def restore(cls, snapshot: Snapshot) -> "Engine":
        """The engine that has this snapshot. Raises PlacementConflict when two tasks hold one leaf."""
        return cls(snapshot)

    def follow(self, snapshot: Snapshot) -> None:
        """Becomes what `restore` makes of this snapshot, at the price of what differs. Raises PlacementConflict."""
        with paused():
            same = not self._without_quota and snapshot.cluster == self._context.layout.cluster
            divided = self._divider.divide(snapshot)
            if same and caught_up(self._job_index, self._allocator, divided.snapshot):
                self._job_index.elastic.follow(divided)
                self._reservations, self._memory = snapshot.reservations, CycleMemory()
            else:
                self._load(snapshot)

    # State

    def _load(self, whole: Snapshot) -> None:
        divided = self._divider.divide(whole)
        snapshot = divided.snapshot
        self._reservations = snapshot.reservations
        self._claims = Claims()
        for claim in snapshot.claims:
            self._claims.add(claim)
        self._job_index = JobIndex(snapshot, self._claims)
        self._job_index.elastic.follow(divided)
        self._settle(snapshot.cluster)

    def _settle(self, cluster: Cluster) -> None:
        """Makes everything anew that follows from the cluster, and enters jobs and claims again."""
        self._context = ClusterContext(cluster)
        self._memory = CycleMemory()
        self._allocator, self._without_quota = entered(
            self._context.layout, self._job_index.running, self._claims, self._job_index.waiting
        )
        self._job_index.settle(self._context.layout, self._context.shapes)
        self._engine_context = EngineContext(self._context, self._allocator, self._job_index, self._claims)

    def _state(self, now: int, *, to_change: bool = True) -> CycleState:
        """The state of a cycle, which changes it: its maps are copies, unless not `to_change`."""
        return self._engine_context.state(now, self._reservations, self._memory, to_change=to_change)

    def _runs(self, job_id: str) -> Running:
        running = self._job_index.running.get(job_id)
        if running is None:
            raise UnknownJob(job_id)
        return running

    def _parts(self, job_id: str) -> list[Running]:
        """The running job and its extra tasks; none where it waits."""
        running = self._job_index.running
        names = (job_id, *self._job_index.elastic.extras.get(job_id, {}).values())
        parts = [running[name] for name in names if name in running]
        if not parts and not self._job_index.is_waiting(job_id):
            raise UnknownJob(job_id)
        return parts

    def _end_tasks(self, running: Running, tasks: set[TaskRef] | None, now: int | None) -> None:
        name, stay = running.job.id, []
        for task in running.tasks:
            if tasks is not None and task.placement.task not in tasks:
                stay.append(task)
                continue
            if now is not None:
                self._job_index.usage_history.ended(running.job, task, now)
            self._allocator.release(name, task.placement)
            for use in task.placement.leaves:
                self._claims.victim_gone(use.leaf, name)
        self._job_index.set_running(Running(running.job, tuple(stay)))

    def _claim_all(self, name: str, claims: Sequence[Claim]) -> None:
        """Enters claims in place of earlier ones; whoever has the leaves by right has them on loan from now on."""
        self._release([claim.leaf for claim in claims])
        uses = [LeafUse(claim.leaf, claim.virtual_cell, Standing.GUARANTEED) for claim in claims]
        self._allocator.make_way(uses)
        self._allocator.claim(name, uses, needs_of(self._job_index.waiting.get(name), claims), parked_in(claims))
        for claim in claims:
            self._claims.add(claim)
        self._job_index.rank(name)

    def _release(self, leaves: Iterable[str]) -> None:
        """Drops these claims; victims that still run have their virtual cells again."""
        given_up = [claim for claim in map(self._claims.drop, leaves) if claim is not None]
        if not given_up:
            return
        for claim in given_up:
            self._allocator.unclaim(claim.claimant, [claim.leaf])
            self._job_index.rank(claim.claimant)
        give_back(self._allocator, self._job_index.running, given_up)

    def _claims_of(self, preempt: Preempt) -> list[Claim]:
        name = preempt.job.id
        parked = set(parked_in(self._claims.of(name).values()))
        return [
            Claim(
                use.leaf, name, self._allocator.holder(use.leaf), use.virtual_cell or "", placement.task,
                parked=use.leaf in parked,
            )
            for placement in preempt.placements
            for use in placement.leaves
        ]  # fmt: skip

    def _claimed_for(self, start: Start) -> list[str]:
        claims = self._claims.of(start.job.id)
        tasks = {placement.task for placement in start.placements}
        return [claim.leaf for claim in claims.values() if claim.task in tasks]

    def _note_all(self, plan: Plan) -> None:
        """Notes a plan's starts and preemptions, which the allocator has already."""
        for preempt in plan.preemptions:
            for claim in self._claims_of(preempt):
                self._claims.add(claim)
            self._job_index.rank(preempt.job.id)
            for gone in preempt.victims:
                self.leave(gone.job, gone.tasks)
        for start in plan.starts:
            self._note_start(start)
        self._reservations = plan.reservations

    def _note_start(self, start: Start) -> None:
        for leaf in self._claimed_for(start) if start.job.id in self._claims else ():
            claim = self._claims.drop(leaf)
            self._job_index.lose([claim.virtual_cell] if claim is not None else (), start.at_ms)
        tasks = [RunningTask(placement, start.at_ms) for placement in start.placements]
        if start.job.id in self._job_index.waiting:
            self._job_index.no_longer_wanted(start.job.id, {placement.task for placement in start.placements})
        self._job_index.add_running(start.job, tasks)
