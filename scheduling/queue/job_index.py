"""Running and waiting jobs, their queues, and the sums that follow from them."""

from collections.abc import Iterable

from scheduling.cells.cell_index import CellIndex
from scheduling.cells.claims import Claims
from scheduling.cells.request import JobShapes
from scheduling.model.cluster import Order
from scheduling.model.elastic import EXTRA, extra_tasks, gang_of
from scheduling.model.job import Borrow, Job, LeafUse, Standing, TaskRef
from scheduling.model.plan import Demotion
from scheduling.model.snapshot import Running, RunningTask, Snapshot
from scheduling.queue.elastic_jobs import ElasticJobs
from scheduling.queue.loan_limits import Loans
from scheduling.queue.queue import Queue
from scheduling.queue.usage_history import UsageHistory


class Ranks:
    """The priorities of those that may have virtual leaves, for each virtual cluster."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, int]] = {}
        self._counts: dict[str, dict[int, int]] = {}

    def lowest(self, vc: str) -> int:
        """The lowest of them; more than any where there is none."""
        return min(self._counts.get(vc) or {1 << 30: 1})

    def set(self, name: str, job: Job | None) -> None:
        """The job under this name is such a one, or (None) is not."""
        known = self._known.pop(name, None)
        if known is not None:
            counts = self._counts[known[0]]
            counts[known[1]] -= 1
            if not counts[known[1]]:
                del counts[known[1]]
        if job is not None and not job.opportunistic:
            self._known[name] = job.vc, job.priority
            counts = self._counts.setdefault(job.vc, {})
            counts[job.priority] = counts.get(job.priority, 0) + 1


class JobIndex:
    """Running and waiting jobs by id; extra tasks of elastic jobs run as jobs of their own (`elastic`). In a queue
    stand those that wait, and guaranteed ones that run on loan."""

    def __init__(self, snapshot: Snapshot, claims: Claims) -> None:
        self.claims = claims
        self.usage_history = UsageHistory(snapshot.cluster, snapshot.usage)
        self.running: dict[str, Running] = {one.job.id: one for one in snapshot.running}
        self.waiting: dict[str, Job] = {job.id: job for job in snapshot.waiting}
        self.demotions: dict[str, Demotion] = {one.job: one for one in snapshot.demotions}
        self.freed = snapshot.freed
        self.elastic = ElasticJobs()
        self._followers: dict[str, set[str]] = {}
        for job in snapshot.waiting:
            self._follow(job)

    def settle(self, layout: CellIndex, shapes: JobShapes) -> None:
        """Queues and sums anew, for this layout."""
        self._shapes = shapes
        self._by_submission = layout.policy.order is Order.SUBMISSION
        self.queues: dict[str, Queue] = {}
        self.opportunistic: dict[str, Queue] = {}
        self._stands: dict[str, Queue] = {}
        self.loans = Loans.of(layout, self.running)
        self.ranks = Ranks()
        self._leaving: dict[str, str] = {}
        for running in self.running.values():
            self._note_leaving(running)
            self.ranks.set(running.job.id, running.job)
            self.usage_history.update(running.job, running.tasks)
        for name in self.claims:
            self.rank(name)
        for name in sorted({*self.running, *self.waiting}):
            self._place_in_queue(name)

    def rank(self, name: str) -> None:
        """The job runs or claims cells now, or does so no more."""
        running = self.running.get(name)
        if running is not None:
            self.ranks.set(name, running.job)
        else:
            self.ranks.set(name, self.waiting.get(name) if name in self.claims else None)

    # Waiting

    def submit(self, job: Job) -> None:
        """The job waits; extra tasks of it stand in no queue."""
        gang = gang_of(job)
        if gang.wanted:
            self.enqueue(gang)
        else:
            self.leave_queue(job.id)
        if gang is job:
            self.elastic.growing.pop(job.id, None)
        else:
            self.elastic.growing[job.id] = job.wanting(extra_tasks(job))

    def enqueue(self, job: Job) -> None:
        """The job waits, in place of what waited under its id."""
        self._unfollow(self.waiting.get(job.id))
        self.waiting[job.id] = job
        self._follow(job)
        self._place_in_queue(job.id)

    def is_waiting(self, name: str) -> bool:
        """Whether anything of the job waits."""
        return name in self.waiting or name in self.elastic.growing

    def leave_queue(self, name: str) -> None:
        """Nothing of the job stands in a queue any more."""
        self._unfollow(self.waiting.pop(name, None))
        self._place_in_queue(name)

    def no_longer_wanted(self, name: str, tasks: set[TaskRef]) -> None:
        """These tasks wait no more."""
        job = self.waiting.get(name)
        if job is None:
            return
        left = tuple([task for task in job.wanted if task not in tasks])
        if left:
            self.waiting[name] = job.wanting(left)
            self._place_in_queue(name)
        else:
            self.leave_queue(name)

    def is_over(self, name: str) -> None:
        """Who waits for the end of this job waits for it no more."""
        self.elastic.growing.pop(name, None)
        for other in sorted(self._followers.pop(name, ())):
            job = self.waiting[other]
            self.enqueue(job._replace(after=tuple(one for one in job.after if one != name)))

    def _follow(self, job: Job) -> None:
        for one in job.after:
            self._followers.setdefault(one, set()).add(job.id)

    def _unfollow(self, job: Job | None) -> None:
        if job is not None:
            for one in job.after:
                self._followers.get(one, set()).discard(job.id)

    def _place_in_queue(self, name: str) -> None:
        stands = self._stands.pop(name, None)
        if stands is not None:
            stands.remove(name)
        job = self.waiting.get(name)
        if job is None:
            running = self.running.get(name)
            if running is None or running.job.opportunistic or not any(one.on_loan for one in running.tasks):
                return
            job = running.job.wanting(tuple(task.placement.task for task in running.tasks))
        queues = self.opportunistic if job.opportunistic else self.queues
        queue = self._stands[name] = queues.setdefault(job.vc, Queue())
        wants_loan = name in self.waiting and (job.opportunistic or job.borrow is Borrow.AUTO)
        user = "" if self._by_submission else job.user
        queue.add(job, user, self._shapes.of(job), wants_loan=wants_loan)

    # Running

    def add_running(self, job: Job, tasks: Iterable[RunningTask]) -> None:
        """These tasks of a job run beside what runs of it already."""
        before = self.running.get(job.id)
        every = [*(before.tasks if before else ()), *tasks]
        if len(every) > 1:
            every.sort(key=lambda task: task.placement.task)
        self.set_running(Running(job.wanting(()), tuple(every)))

    def set_leaving(self, running: Running) -> None:
        """Some tasks of a running job are told to leave; nothing else of it changes."""
        self.running[running.job.id] = running
        self._note_leaving(running)
        for task in running.tasks:
            if task.leaving:
                self.loans.leave(running.job, task.placement)

    def lose(self, cells: Iterable[str], now: int) -> None:
        """Another job runs in these virtual cells: who had them and is still leaving is on loan from now (ms) on."""
        taken = frozenset(cells).intersection(self._leaving)
        for name in sorted({self._leaving[cell] for cell in taken}):
            job, tasks = self.running[name]
            self.set_running(Running(job, tuple(self._without(job, task, taken, now) for task in tasks)))

    def _without(self, job: Job, task: RunningTask, cells: frozenset[str], now: int) -> RunningTask:
        place = task.placement
        if cells.isdisjoint(use.virtual_cell for use in place.leaves):
            return task
        self.usage_history.ended(job, task, now)
        lost = LeafUse("", None, Standing.BORROWED)
        leaves = tuple(lost._replace(leaf=use.leaf) if use.virtual_cell in cells else use for use in place.leaves)
        return task._replace(placement=place._replace(leaves=leaves), right_ms=now)

    def _note_leaving(self, running: Running) -> None:
        """The virtual cells of tasks that are told to leave."""
        for task in running.tasks:
            for use in task.placement.leaves if task.leaving else ():
                if use.virtual_cell is not None:
                    self._leaving[use.virtual_cell] = running.job.id

    def set_running(self, running: Running) -> None:
        """A running job's tasks and places as they are now; without tasks it runs no more."""
        name = running.job.id
        before = self.running.get(name)
        for task in before.tasks if before else ():
            self.loans.count(running.job, task.placement, -1)
            for use in task.placement.leaves if task.leaving else ():
                self._leaving.pop(use.virtual_cell or "", None)
        self._note_leaving(running)
        for task in running.tasks:
            self.loans.count(running.job, task.placement, 1)
            if task.leaving:
                self.loans.leave(running.job, task.placement)
        self.usage_history.update(running.job, running.tasks)
        if running.tasks:
            self.running[name] = running
        else:
            del self.running[name]
            self.demotions.pop(name, None)
        if running.job.priority == EXTRA:
            self.elastic.ran(running, self.running)
        self.rank(name)
        self._place_in_queue(name)
