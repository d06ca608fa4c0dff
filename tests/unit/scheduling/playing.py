"""An event loop that plays jobs through an engine to their end: starts, ends, preemptions, and what became of all."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from scheduling import Engine, Job, Plan, Start, TaskRef, Victim, refusals
from scheduling.queue.usage_history import amounts_of, hourly
from tests.unit.scheduling.builders import park, resume

GROW_EVERY = 3
"""A job that has grown starts no further tasks for so long."""

PASSES = 40
"""So many passes of one moment change something at most; more is a loop."""


@dataclass(frozen=True, order=True)
class Began:
    """A task began: when, which, and in which virtual cells (none: on loan)."""

    at: int
    job: str
    task: TaskRef
    cells: tuple[str, ...]


@dataclass
class Run:
    """What became of the jobs: when each task began and each job ended, on which nodes its tasks were."""

    starts: list[Began] = field(default_factory=list)
    began: dict[str, list[int]] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    nodes: dict[str, dict[str, int]] = field(default_factory=dict)
    most_at_once: dict[str, int] = field(default_factory=dict)
    preempted: list[tuple[int, str, str]] = field(default_factory=list)

    def tasks_of(self, name: str) -> list[TaskRef]:
        """The tasks of a job as they began; a preempted one began more than once."""
        return [one.task for one in self.starts if one.job == name]


Watch = Callable[[Engine, Plan], None]
"""Looks at the engine after a plan was carried out there, its victims still in place."""


class Player:
    """Plays arrivals, each task ending `lasts` after its own start; a preempted one begins anew after its grace.

    An elastic job is over with its gang. Of one moment first all ends are told the engine, then all submissions; then
    it decides until nothing changes. Jobs of `parks` are parked from the first of these moments to the second, if they
    run there by right.
    """

    def __init__(
        self,
        made: Engine,
        lasts: dict[str, int],
        watch: Watch | None = None,
        parks: Mapping[str, tuple[int, int]] | None = None,
    ) -> None:
        self.made = made
        self.run = Run()
        self._lasts = lasts
        self._watch = watch
        self._parks = parks or {}
        self._parked: dict[str, Job] = {}
        self._jobs: dict[str, Job] = {}
        self._left: dict[str, set[TaskRef]] = {}
        self._waiting: dict[str, set[TaskRef]] = {}
        self._since: dict[tuple[str, TaskRef], int] = {}
        self._events: list[tuple[int, int, int, str, tuple[TaskRef, ...]]] = []
        self._number = 0

    def play(self, arrivals: Sequence[tuple[int, Job]]) -> Run:
        """All of it but what is refused at submission; jobs may be left that never start."""
        cluster = self.made.snapshot().cluster
        for at, job in arrivals:
            if refusals(cluster, job):
                continue
            self._jobs[job.id] = job
            self._push(at, 1, job.id, job.wanted)
        for name, (at, _) in self._parks.items():
            self._push(at, 4, name, ())
        while self._events:
            now = self._events[0][0]
            while self._events and self._events[0][0] == now:
                self._happens(*heappop(self._events))
            self._decide(now)
        return self.run

    def _happens(self, now: int, kind: int, number: int, name: str, tasks: tuple[TaskRef, ...]) -> None:
        match kind:
            case 0:
                self._end(now, number, name, tasks)
            case 1:
                self._left[name] = {task for task in tasks if not self._jobs[name].is_extra(task)}
                self._wait(name, tasks)
            case 3:
                self._gone(now, number, name, tasks)
            case 4:
                self._park(name)
            case 5:
                self._unpark(name)

    def advance(self, now: int) -> Plan:
        """The engine's next plan, which it carries out."""
        return self.made.advance(now)

    def _push(self, at: int, kind: int, name: str, tasks: tuple[TaskRef, ...]) -> int:
        self._number += 1
        heappush(self._events, (at, kind, self._number, name, tasks))
        return self._number

    def _wait(self, name: str, tasks: tuple[TaskRef, ...]) -> None:
        every = self._waiting[name] = self._waiting.get(name, set()) | set(tasks)
        self.made.submit(self._jobs[name]._replace(wanted=tuple(sorted(every))))

    def _end(self, now: int, number: int, name: str, tasks: tuple[TaskRef, ...]) -> None:
        """The tasks are through, or (victims) out of their grace; without effect where they were ended before."""
        mine = tuple(task for task in tasks if self._since.get((name, task)) == number)
        if not mine:
            return
        self._leave(now, name, mine)
        self._left[name] -= set(mine)
        if self._left[name]:
            self.made.finish(name, mine)
        else:
            for key in [key for key in self._since if key[0] == name]:
                del self._since[key]
            self.made.finish(name)
            self.run.ended[name] = now

    def _leave(self, now: int, name: str, tasks: tuple[TaskRef, ...]) -> None:
        """What the tasks used is noted before they go."""
        state = next(one for one in self.made.snapshot().running if one.job.id == name)
        leaf_types = self.made.snapshot().cluster.leaf_types
        for task in state.tasks:
            if task.placement.task in tasks:
                del self._since[name, task.placement.task]
                amounts = amounts_of(task.placement, leaf_types)
                if not state.job.opportunistic:
                    for row in hourly(state.job.vc, state.job.user, amounts, task.since_ms, now):
                        self.made.note(row)

    def _decide(self, now: int) -> None:
        for _ in range(PASSES):
            reserved = self.made.snapshot().reservations
            plan = self.advance(now)
            taken = {(use.leaf, one.job.id) for one in plan.preemptions for at in one.placements for use in at.leaves}
            assert taken <= {(one.leaf, one.claimant) for one in self.made.snapshot().claims}
            if self._watch is not None:
                self._watch(self.made, plan)
            for start in plan.starts:
                self._began(now, start)
            for preemption in plan.preemptions:
                for victim in preemption.victims:
                    self.run.preempted.append((now, preemption.job.id, victim.job))
                    self._evict(now, victim)
            for name in self._parked.keys() - {one.claimant for one in self.made.snapshot().claims}:
                self._unpark(name)
            moved = plan.answers or plan.promotions or plan.demotions or plan.releases
            if not moved and plan.reservations == reserved:
                return
        raise AssertionError(f"at {now} every one of {PASSES} passes changed something")

    def _evict(self, now: int, victim: Victim) -> None:
        """The victim's tasks wait again, after its grace; two preemptors may name the same."""
        if not victim.grace_ms:
            self._gone(now, self._number, victim.job, victim.tasks)
        else:
            self._push(now + victim.grace_ms, 3, victim.job, victim.tasks)

    def _gone(self, now: int, until: int, name: str, tasks: tuple[TaskRef, ...]) -> None:
        """These tasks, if they began before the event `until`, end and wait again."""
        left = tuple(task for task in tasks if self._since.get((name, task), until + 1) <= until)
        if left:
            self._leave(now, name, left)
            self.made.finish(name, left)
            self._wait(name, left)

    def _park(self, name: str) -> None:
        running = next((one for one in self.made.snapshot().running if one.job.id == name), None)
        if running is not None and not any(task.on_loan or task.leaving for task in running.tasks):
            self._parked[name] = park(self.made, name)
            self._waiting[name] = set(self._parked[name].wanted)
            for task in running.tasks:
                del self._since[name, task.placement.task]
            self._push(self._parks[name][1], 5, name, ())

    def _unpark(self, name: str) -> None:
        """Its person is back; or it has lost its place, and waits like others."""
        parked = self._parked.pop(name, None)
        if parked is not None:
            resume(self.made, parked)

    def _began(self, now: int, start: Start) -> None:
        name, run = start.job.id, self.run
        tasks = tuple(placement.task for placement in start.placements)
        self._waiting[name] -= set(tasks)
        grown = all(map(self._jobs[name].is_extra, tasks))
        number = self._push(now + (GROW_EVERY if grown else self._lasts[name]), 2 if grown else 0, name, tasks)
        if grown:
            self._jobs[name] = self._jobs[name]._replace(grow_from_ms=now + GROW_EVERY)
            if self._waiting[name]:
                self._wait(name, ())
        nodes = run.nodes.setdefault(name, {})
        for placement in start.placements:
            cells = tuple(sorted(use.virtual_cell for use in placement.leaves if use.virtual_cell is not None))
            run.starts.append(Began(now, name, placement.task, cells))
            run.began.setdefault(name, []).append(now)
            nodes[placement.node] = nodes.get(placement.node, 0) + 1
            self._since[name, placement.task] = number
        at_once = sum(owner == name for owner, _ in self._since)
        run.most_at_once[name] = max(run.most_at_once.get(name, 0), at_once)


def run_to_the_end(made: Engine, arrivals: Sequence[tuple[int, Job]], lasts: dict[str, int]) -> Run:
    """What becomes of these jobs."""
    return Player(made, lasts).play(arrivals)
