"""The engine: one state, changed by what happened, asked for decisions that change nothing."""

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from scheduling.admission import JobRefused, refusals_on
from scheduling.cells import Cluster, Node
from scheduling.deciding import Desk, NodeIds, Shapes
from scheduling.decisions import Plan, Preempt, Start, Wait
from scheduling.jobs import Job, TaskPlacement, TaskRef
from scheduling.ledger import Layout, Ledger, PlacementConflict
from scheduling.ordering import order_key
from scheduling.planning import Pass
from scheduling.snapshot import Claim, Running, RunningTask, Snapshot

ALL: Final[NodeIds] = None
"""Every node."""


class UnknownJob(KeyError):
    """The engine has no job of this id (`job`), neither waiting nor running."""

    def __init__(self, job: str) -> None:
        super().__init__(job)
        self.job = job


class Engine:
    """Jobs, cells and who holds what; the same for a tick, a simulation, a what-if and a replay.

    What happened goes in by `submit`, `start`, `finish`, `claim`, `release`, `set_node` and `reconfigure`;
    `decide`, `plan` and `explain` answer and change nothing. Every answer follows from the snapshot and the
    arguments alone: not from history, a clock or chance.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._running: dict[str, Running] = {}
        self._waiting: dict[str, Job] = {}
        self._queues: dict[bool, dict[str, list[Job]]] = {False: {}, True: {}}
        self._claims: dict[str, Claim] = {}
        self._kept = Snapshot(cluster)
        self._settle(cluster)

    # What happened

    def submit(self, job: Job) -> None:
        """The job waits from now on; in place of what waited under its id. Raises JobRefused."""
        found = refusals_on(self._served, job)
        if found:
            raise JobRefused(found)
        self._enqueue(job)

    def start(self, start: Start) -> None:
        """The placed tasks run. Raises PlacementConflict when a cell or a task of it is taken already."""
        job = start.job
        self._check_start(job.id, start.placements)
        held: list[TaskPlacement] = []
        try:
            for placement in start.placements:
                self._ledger.hold(placement)
                held.append(placement)
        except PlacementConflict:
            for placement in held:
                self._ledger.release(placement)
            raise
        for leaf in (use.leaf for placement in held for use in placement.leaves):
            if leaf in self._claims:
                self.release(leaf)
        self._note_running(job, [RunningTask(placement, start.at_ms) for placement in held])
        self._no_longer_wanted(job.id, {placement.task for placement in held})

    def finish(self, job_id: str, tasks: Iterable[TaskRef] | None = None) -> None:
        """These tasks gave their places back; with None the job is over, waiting tasks included.

        A job that is over holds back none of the jobs that wait for it. Raises UnknownJob.
        """
        if job_id not in self._running and job_id not in self._waiting:
            raise UnknownJob(job_id)
        running = self._running.get(job_id)
        if running is not None:
            self._end_tasks(running, None if tasks is None else set(tasks))
        if tasks is None:
            self._dequeue(job_id)
            for claim in [one for one in self._claims.values() if one.claimant == job_id]:
                self.release(claim.leaf)
            for job in [one for one in self._waiting.values() if job_id in one.after]:
                self._enqueue(replace(job, after=tuple(one for one in job.after if one != job_id)))

    def claim(self, claim: Claim) -> None:
        """Keep a leaf cell for the claimant, in place of an earlier claim on it."""
        self._claims[claim.leaf] = claim
        self._ledger.claim(claim.leaf)

    def release(self, leaf: str) -> None:
        """Give up the claim on a leaf cell; without effect where there is none."""
        if self._claims.pop(leaf, None) is not None:
            self._ledger.unclaim(leaf)

    def set_node(self, node: Node) -> None:
        """The node is new or has changed: its state, its health, its size. Raises ClusterError."""
        cluster = self._layout.cluster
        nodes = {one.id: one for one in cluster.nodes} | {node.id: node}
        self.reconfigure(replace(cluster, nodes=tuple(nodes[one] for one in sorted(nodes))))

    def reconfigure(self, cluster: Cluster) -> None:
        """Nodes or quotas changed. Running jobs keep their places, also beyond a smaller quota."""
        self._settle(cluster)

    # What to do

    def decide(self, job: Job, now: int, nodes: NodeIds = ALL, may_preempt: bool = True) -> Start | Preempt | Wait:
        """What would become of this job alone, asked at `now` (ms): the queue's order is not looked at.

        `nodes` limits where it may go. `may_preempt` allows Preempt as an answer; today's rules lend nothing
        that has to be taken back, so the answer is Start or Wait either way.
        """
        desk = self._desk(self._ledger)
        reason = desk.hold(job)
        return Wait(job, reason) if reason else desk.decide(job, now, nodes, self._shapes.of(job).choices)

    def plan(self, now: int) -> Plan:
        """All decisions of this moment (ms), each as if those before it were carried out."""
        return Pass(self._desk(self._ledger.copy()), now).run(self._queues[False], self._queues[True])

    def explain(self, job_id: str, now: int) -> Start | Wait:
        """What the plan says of a job: why (what of it) waits and at which place, else where it starts.

        Raises UnknownJob for a job that does not wait.
        """
        if job_id not in self._waiting:
            raise UnknownJob(job_id)
        plan = self.plan(now)
        answers: list[Start | Wait] = [*plan.waits, *plan.starts]
        return next(one for one in answers if one.job.id == job_id)

    # All of it, as data

    def snapshot(self) -> Snapshot:
        """Everything known, in the order of ids."""
        return replace(
            self._kept,
            cluster=self._layout.cluster,
            running=tuple(self._running[one] for one in sorted(self._running)),
            waiting=tuple(self._waiting[one] for one in sorted(self._waiting)),
            claims=tuple(self._claims[one] for one in sorted(self._claims)),
        )

    @classmethod
    def restore(cls, snapshot: Snapshot) -> "Engine":
        """The engine that has this snapshot. Raises PlacementConflict when two tasks hold one cell."""
        engine = cls(snapshot.cluster)
        engine._kept = snapshot
        for running in snapshot.running:
            for task in running.tasks:
                engine._ledger.hold(task.placement)
            engine._note_running(running.job, running.tasks)
        for job in snapshot.waiting:
            engine._waiting[job.id] = job
            engine._queue(job).append(job)
        for queues in engine._queues.values():
            for queue in queues.values():
                queue.sort(key=order_key)
        for claim in snapshot.claims:
            engine.claim(claim)
        return engine

    # Keeping the books

    def _settle(self, cluster: Cluster) -> None:
        """Everything that follows from the cluster, made anew, with who holds what entered again."""
        self._layout = Layout(cluster)
        self._shapes = Shapes(self._layout)
        self._idle = Ledger(self._layout)
        self._served = self._idle.all_in_service()
        self._ledger = self._idle.copy()
        for running in self._running.values():
            for task in running.tasks:
                self._ledger.hold(task.placement)
        for leaf in self._claims:
            self._ledger.claim(leaf)

    def _desk(self, ledger: Ledger) -> Desk:
        return Desk(ledger, self._idle, self._shapes, self._claims)

    def _queue(self, job: Job) -> list[Job]:
        return self._queues[job.opportunistic].setdefault(job.vc, [])

    def _enqueue(self, job: Job) -> None:
        self._dequeue(job.id)
        self._waiting[job.id] = job
        insort(self._queue(job), job, key=order_key)

    def _dequeue(self, job_id: str) -> None:
        job = self._waiting.pop(job_id, None)
        if job is not None:
            queue = self._queue(job)
            del queue[bisect_left(queue, order_key(job), key=order_key)]

    def _no_longer_wanted(self, job_id: str, tasks: set[TaskRef]) -> None:
        job = self._waiting.get(job_id)
        if job is None:
            return
        left = tuple(task for task in job.wanted if task not in tasks)
        if left:
            self._enqueue(replace(job, wanted=left))
        else:
            self._dequeue(job_id)

    def _note_running(self, job: Job, tasks: Iterable[RunningTask]) -> None:
        before = self._running.get(job.id)
        every = [*(before.tasks if before else ()), *tasks]
        every.sort(key=lambda task: task.placement.task)
        self._running[job.id] = Running(replace(job, wanted=()), tuple(every))

    def _end_tasks(self, running: Running, tasks: set[TaskRef] | None) -> None:
        stay = []
        for task in running.tasks:
            if tasks is not None and task.placement.task not in tasks:
                stay.append(task)
                continue
            self._ledger.release(task.placement)
            for use in task.placement.leaves:
                claim = self._claims.get(use.leaf)
                if claim is not None and claim.victim == running.job.id:
                    self._claims[use.leaf] = replace(claim, victim=None)
        if stay:
            self._running[running.job.id] = replace(running, tasks=tuple(stay))
        else:
            del self._running[running.job.id]

    def _check_start(self, job_id: str, placements: tuple[TaskPlacement, ...]) -> None:
        running = self._running.get(job_id)
        placed = {task.placement.task for task in running.tasks} if running else set()
        for placement in placements:
            if placement.task in placed:
                raise PlacementConflict(f"{job_id}/{placement.role}/{placement.index}")
            for use in placement.leaves:
                claim = self._claims.get(use.leaf)
                if claim is not None and claim.claimant != job_id:
                    raise PlacementConflict(use.leaf)
