"""When a waiting job will start: the same engine, run forward on a copy, with run times that may come true.

Each of the runs gives every job a run time (`runtimes`). A job of whose run time nobody knows anything never ends
in them: what has to wait for it has no estimate. Over the runs a job's run times are spread evenly over what is
possible (a Latin hypercube: McKay, Beckman and Conover, 1979), so that a few runs say much. The same snapshot
gives the same estimates, unless the time for them is over first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import ceil
from random import Random

from scheduling.diagnosis.feasible_at_submit import JobRefused
from scheduling.engine import Engine
from scheduling.forecast.runtimes import RunTimes
from scheduling.model.elastic import without_extras
from scheduling.model.job import Job, TaskRef
from scheduling.model.plan import Code, Plan, Preempt, Start, Victim, Wait
from scheduling.model.snapshot import Running, Snapshot

RUNS = 20

GRAIN = 32
"""Ends that lie closer together than this part of the time run forward are planned for at once, with the last."""


@dataclass(frozen=True, slots=True)
class Round:
    """All runs once, with the first `depth` waiting jobs of each virtual cluster; begun only where no more than `after`
    (0 to 1) of the time is over."""

    depth: int
    after: float = 1.0


ROUNDS = (Round(5), Round(20, 0.5), Round(100, 0.5))
"""The front of each queue first, so that a short time gives few estimates and not none. Who waits further behind than
the last round reaches gets none."""

Spent = Callable[[], float]
"""The part (0 to 1) of the time for all estimates that is over; asked again and again."""


def no_time_limit() -> float:
    """Everything may take as long as it takes."""
    return 0.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """Moments (ms) by which the job has started in half of the runs, and in nine of ten."""

    p50_ms: int
    p90_ms: int


@dataclass(frozen=True, slots=True)
class Outlook:
    """Estimates of waiting jobs by id; and for those that were looked at and have none, the jobs that never ended in
    the runs and may be in their way: their team's first."""

    estimates: dict[str, Estimate] = field(default_factory=dict)
    endless: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What would become of one job more: now, and when it would start (None: no estimate; `endless`: as in Outlook)."""

    answer: Start | Preempt | Wait
    estimate: Estimate | None
    endless: tuple[str, ...] = ()


def estimates(
    snapshot: Snapshot, now: int, times: RunTimes, *, spent: Spent = no_time_limit, rounds: Sequence[Round] = ROUNDS
) -> dict[str, Estimate]:
    """An estimate for each waiting job for which there is one, by id."""
    return outlook(snapshot, now, times, spent=spent, rounds=rounds).estimates


def outlook(
    snapshot: Snapshot, now: int, times: RunTimes, *, spent: Spent = no_time_limit, rounds: Sequence[Round] = ROUNDS
) -> Outlook:
    """The same, and of the others what keeps them from having one."""
    targets = {job.id for job in snapshot.waiting}
    return _look(snapshot, Engine.restore(snapshot).plan(now), times, targets, spent, rounds)


def what_if(
    snapshot: Snapshot,
    job: Job,
    now: int,
    times: RunTimes,
    *,
    spent: Spent = no_time_limit,
    rounds: Sequence[Round] = ROUNDS,
) -> WhatIf:
    """What would become of the job were it submitted now. Raises JobRefused."""
    engine = Engine.restore(snapshot)
    engine.submit(job)
    plan = engine.plan(now)
    found = _look(engine.snapshot(), plan, times, {job.id}, spent, rounds)
    return WhatIf(answer_for(job.id, plan), found.estimates.get(job.id), found.endless.get(job.id, ()))


def answer_for(job_id: str, plan: Plan) -> Start | Preempt | Wait:
    """What the plan says of a job that waits."""
    answers: list[Start | Preempt | Wait] = [*plan.starts, *plan.preemptions, *plan.waits]
    return next(one for one in answers if one.job.id == job_id)


def _look(
    snapshot: Snapshot, plan: Plan, times: RunTimes, targets: set[str], spent: Spent, rounds: Sequence[Round]
) -> Outlook:
    """Of the targets. A later round looks further and knows better, where it comes to an end. Elastic jobs run with
    their gangs alone: their extra tasks delay nobody."""
    snapshot = without_extras(snapshot)
    found: dict[str, Estimate] = {}
    endless: dict[str, tuple[str, ...]] = {}
    codes = {wait.job.id: wait.reason.code for wait in plan.waits}
    for one in rounds:
        begin = spent()
        if begin > one.after:
            break
        front = _front(snapshot, plan, one.depth)
        wanted = targets & {job.id for job in front.waiting}
        starts: dict[str, list[int]] = {}
        for number in range(RUNS if wanted else 0):
            until = begin + (1 - begin) * (number + 1) / RUNS
            run = _Run(front, plan.at_ms, times, number)
            begun = run.starts(wanted, spent, until)
            for job, at in begun.items():
                starts.setdefault(job, []).append(at)
            if run.over:
                endless.update({job: run.in_the_way(job, codes.get(job)) for job in wanted - begun.keys()})
            if spent() > 1:
                break
        found.update({job: known for job, moments in starts.items() if (known := _range(sorted(moments)))})
        if len(front.waiting) == len(snapshot.waiting):
            break
    return Outlook(found, {job: those for job, those in endless.items() if those and job not in found})


def _range(moments: list[int]) -> Estimate | None:
    """Of the moments at which it started, in order; in the runs beyond these it did not."""
    half, most = ceil(RUNS * 0.5) - 1, ceil(RUNS * 0.9) - 1
    return Estimate(moments[half], moments[most]) if len(moments) > most else None


def _front(snapshot: Snapshot, plan: Plan, depth: int) -> Snapshot:
    """The snapshot with the first waiting jobs of each virtual cluster only: who comes later delays nobody. A pause for
    which cells are kept is as good as over."""
    counts: dict[str, int] = {}
    kept = {start.job.id for start in plan.starts} | {preempt.job.id for preempt in plan.preemptions}
    for wait in sorted(plan.waits, key=lambda one: one.place is None):
        counts[wait.job.vc] = counts.get(wait.job.vc, 0) + 1
        if counts[wait.job.vc] <= depth:
            kept.add(wait.job.id)
    claimants = {claim.claimant for claim in snapshot.claims}
    waiting = (job for job in snapshot.waiting if job.id in kept)
    return replace(
        snapshot,
        waiting=tuple(job._replace(paused=False) if job.id in claimants else job for job in waiting),
    )


_OF_THE_TEAM = (Code.QUOTA, Code.USER_LIMIT, Code.BORROW_LIMIT)


def _want_the_same(one: Job, other: Job) -> bool:
    """Whether the other may hold what the one wants: GPUs of a SKU that it takes, or what a job without GPUs needs."""
    mine, theirs = ({role.sku for role in job.roles if role.gpus} for job in (one, other))
    return not mine or bool(mine & theirs) or bool(theirs) and None in mine | theirs


@dataclass(slots=True)
class _State:
    """A job in a run: what of it waits, and since which moment each placed task runs."""

    job: Job
    wanted: set[TaskRef]
    placed: dict[TaskRef, int] = field(default_factory=dict)


class _Run:
    """One run forward: events in order of time, a plan after the events of a moment."""

    def __init__(self, snapshot: Snapshot, now: int, times: RunTimes, number: int) -> None:
        self._engine = Engine.restore(snapshot)
        self._now = now
        self._times = times
        self._number = number
        self._jobs: dict[str, _State] = {}
        self._events: list[tuple[int, str, int, tuple[TaskRef, ...], bool]] = []
        self._found: dict[str, int] = {}
        victims = {claim.victim for claim in snapshot.claims}
        for running in snapshot.running:
            self._take_over(running, running.job.id in victims)
        for job in snapshot.waiting:
            self._state(job).wanted.update(job.wanted)

    def starts(self, wanted: set[str], spent: Spent, until: float) -> dict[str, int]:
        """When each of these jobs began to start (ms), as far as the run came until this part of the time was over."""
        self._advance()
        begin = self._now
        while self._events and not wanted <= self._found.keys() and spent() <= until:
            together = self._events[0][0] + (self._events[0][0] - begin) // GRAIN
            while self._events and self._events[0][0] <= together:
                self._now, job_id, placed, tasks, evicted = heappop(self._events)
                self._happen(job_id, placed, tasks, evicted)
            self._advance()
        return {job: at for job, at in self._found.items() if job in wanted}

    @property
    def over(self) -> bool:
        """Whether nothing happens any more: who holds anything now never ends."""
        return not self._events

    def in_the_way(self, job_id: str, code: Code | None) -> tuple[str, ...]:
        """Of those that never end the ones that want the same hardware as this job; only of its team where a right of
        the team or its user is missing. None where it waits for nodes that are out of service or gone."""
        if code in (Code.BAD_NODES, Code.NO_NODE):
            return ()
        mine = self._jobs[job_id].job
        found = [
            (state.job.vc != mine.vc, state.job.submitted_ms, state.job.id)
            for state in self._jobs.values()
            if state.placed
            and state.job is not mine
            and (state.job.vc == mine.vc or code not in _OF_THE_TEAM)
            and _want_the_same(mine, state.job)
        ]
        return tuple(name for _, _, name in sorted(found))

    def _state(self, job: Job) -> _State:
        return self._jobs.setdefault(job.id, _State(job, set()))

    def _take_over(self, running: Running, victim: bool) -> None:
        """A job that runs already; of its tasks those that leave are gone after its grace."""
        state = self._state(running.job)
        groups: dict[tuple[int, bool], list[TaskRef]] = {}
        for task in running.tasks:
            state.placed[task.placement.task] = task.started_ms
            groups.setdefault((task.started_ms, task.leaving), []).append(task.placement.task)
        for (began, leaving), tasks in groups.items():
            if leaving:
                self._expect(self._now + running.job.grace_ms, state, began, tasks, victim)
            else:
                self._expect_end(state, began, tasks)

    def _expect_end(self, state: _State, began: int, tasks: Sequence[TaskRef]) -> None:
        lasts = self._times.of(state.job, self._now - began, self._quantile(state.job.id))
        if lasts is not None:
            self._expect(began + lasts, state, began, tasks, False)

    def _expect(self, at: int, state: _State, began: int, tasks: Sequence[TaskRef], evicted: bool) -> None:
        heappush(self._events, (at, state.job.id, began, tuple(tasks), evicted))

    def _quantile(self, job_id: str) -> float:
        """The run times of a job over the runs: each part of what is possible once, in an order of its own."""
        order = Random(job_id).sample(range(RUNS), RUNS)
        return (order[self._number] + 0.5) / RUNS

    def _happen(self, job_id: str, began: int, tasks: tuple[TaskRef, ...], evicted: bool) -> None:
        """The tasks that began then end, or are evicted and wait again; those that are gone already do not."""
        state = self._jobs[job_id]
        gone = [task for task in tasks if state.placed.get(task) == began]
        if not gone:
            return
        for task in gone:
            del state.placed[task]
        over = not evicted and not state.placed and not state.wanted
        self._engine.finish(job_id, None if over else gone, self._now)
        if evicted:
            state.wanted.update(gone)
            self._submit(state)

    def _submit(self, state: _State) -> None:
        if state.job.gang and state.placed:
            return  # its other tasks leave as well; it waits again when the last is gone
        try:
            self._engine.submit(state.job._replace(wanted=tuple(sorted(state.wanted))))
        except JobRefused:
            state.wanted.clear()  # the cluster has changed since: it could not start again

    def _advance(self) -> None:
        """Plan, and carry the plan out; who is preempted leaves after its grace."""
        plan = self._engine.advance(self._now)
        for start in plan.starts:
            self._note_start(start)
        for preempt in plan.preemptions:
            for victim in preempt.victims:
                self._note_victim(victim)

    def _note_start(self, start: Start) -> None:
        state = self._jobs[start.job.id]
        self._found.setdefault(start.job.id, self._now)
        tasks = [placement.task for placement in start.placements]
        state.wanted.difference_update(tasks)
        state.placed.update(dict.fromkeys(tasks, self._now))
        self._expect_end(state, self._now, tasks)

    def _note_victim(self, victim: Victim) -> None:
        state = self._jobs[victim.job]
        groups: dict[int, list[TaskRef]] = {}
        for task in victim.tasks:
            groups.setdefault(state.placed[task], []).append(task)
        for began, tasks in groups.items():
            self._expect(self._now + victim.grace_ms, state, began, tasks, True)
