"""The event loop: a trace's jobs through one engine, from event to event, until nothing happens any more."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import heapify, heappop, heappush

from scheduling.engine import Engine
from scheduling.model.job import Job, Standing, TaskPlacement
from scheduling.model.plan import Plan, Start
from scheduling.simulator.trace import TraceJob

RESTART_MS = ((1, 7_000), (8, 30_000))
RESTART_LARGE_MS = 60_000
"""What a restart costs a job that keeps its work: by its GPUs (up to so many), and beyond."""


class Happening(StrEnum):
    """What can happen to a job in a simulation."""

    SUBMIT = "submit"
    START = "start"
    PREEMPT = "preempt"
    PROMOTE = "promote"
    DEMOTE = "demote"
    STOP = "stop"
    FINISH = "finish"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a job at `at_ms`.

    `standing` is by what right it holds its GPUs afterwards, None while it holds none. `cause` is the preemptor,
    or what a demotion was for.
    """

    at_ms: int
    happening: Happening
    job: TraceJob
    standing: Standing | None = None
    cause: str = ""


@dataclass(slots=True)
class Attempt:
    """One run of a job: from when to when (ms; None: still running), and its GPUs on each node."""

    start_ms: int
    nodes: dict[str, int]
    standing: Standing
    end_ms: int | None = None


@dataclass(slots=True)
class Outcome:
    """What became of a job. `finish_ms` None: it never ended; `lost_ms`: run time it had to spend again."""

    job: TraceJob
    attempts: list[Attempt] = field(default_factory=list)
    preemptions: int = 0
    lost_ms: int = 0
    finish_ms: int | None = None

    @property
    def first_start_ms(self) -> int | None:
        """When it ran first."""
        return self.attempts[0].start_ms if self.attempts else None

    @property
    def queue_ms(self) -> int | None:
        """Everything between submission and end that was not the run itself."""
        return None if self.finish_ms is None else self.finish_ms - self.job.submit_ms - self.job.duration_ms


def restart_cost(gpus: int) -> int:
    """Run time (ms) that a restart adds to a job of so many GPUs that keeps its work."""
    return next((cost for most, cost in RESTART_MS if gpus <= most), RESTART_LARGE_MS)


@dataclass(slots=True)
class _Run:
    """A job between its events: the run time that is left, since when it runs."""

    request: Job
    outcome: Outcome
    left_ms: int
    started_ms: int = 0
    standing: Standing | None = None


_ENDS, _SUBMITS = 0, 1


class Loop:
    """Plays the jobs. Of one moment first all ends are told the engine, then all submissions; then it decides.

    With a `restart_cost` (ms by GPUs) a preempted job goes on where it was for that price; else it begins anew.
    """

    def __init__(
        self,
        engine: Engine,
        jobs: Iterable[tuple[TraceJob, Job]],
        *,
        restart_cost: Callable[[int], int] | None,
        ended: Callable[[], None],
    ) -> None:
        self.events: list[Event] = []
        self._engine = engine
        self._runs = {job.id: _Run(request, Outcome(job), job.duration_ms) for job, request in jobs}
        self._restart_cost = restart_cost
        self._ended = ended
        self._agenda = [(run.outcome.job.submit_ms, _SUBMITS, job_id, 0) for job_id, run in self._runs.items()]
        heapify(self._agenda)

    def run(self) -> list[Outcome]:
        """What became of each job, in the order they were given; jobs may be left that never start or end."""
        while self._agenda:
            now = self._agenda[0][0]
            while self._agenda and self._agenda[0][0] == now:
                _, kind, job_id, attempt = heappop(self._agenda)
                run = self._runs[job_id]
                if kind == _SUBMITS:
                    self._engine.submit(run.request)
                    self._note(now, Happening.SUBMIT, run)
                elif run.standing is not None and attempt == len(run.outcome.attempts):
                    self._end(now, run)
            self._carry_out(self._engine.advance(now))
        return [run.outcome for run in self._runs.values()]

    def _note(self, now: int, happening: Happening, run: _Run, cause: str = "") -> None:
        self.events.append(Event(now, happening, run.outcome.job, run.standing, cause))

    # Ends

    def _end(self, now: int, run: _Run) -> None:
        if now - run.started_ms < run.left_ms:
            self._requeue(now, run)
            return
        self._engine.finish(run.request.id)
        self._leave(now, Happening.FINISH, run)
        run.outcome.finish_ms = now
        self._ended()

    def _requeue(self, now: int, run: _Run) -> None:
        """A victim is gone: it waits again, at its old place, with what it has still to do."""
        elapsed = now - run.started_ms
        lost = self._restart_cost(run.outcome.job.gpus) if self._restart_cost else elapsed
        run.outcome.lost_ms += lost
        run.outcome.preemptions += 1
        run.left_ms += lost - elapsed
        self._engine.finish(run.request.id, run.request.wanted)
        self._engine.submit(run.request)
        self._leave(now, Happening.STOP, run)

    def _leave(self, now: int, happening: Happening, run: _Run) -> None:
        run.outcome.attempts[-1].end_ms = now
        run.standing = None
        self._note(now, happening, run)

    # Decisions

    def _carry_out(self, plan: Plan) -> None:
        """What the engine decided and did; here it only becomes the jobs' history."""
        now = plan.at_ms
        for demotion in plan.demotions:
            self._stand(now, Happening.DEMOTE, demotion.job, Standing.BORROWED, demotion.cause)
        for answer in plan.answers:
            for job_id in answer.demotes:
                self._stand(now, Happening.DEMOTE, job_id, Standing.BORROWED, answer.job.id)
        for promotion in plan.promotions:
            self._stand(now, Happening.PROMOTE, promotion.job, Standing.GUARANTEED)
        for preemption in plan.preemptions:
            for victim in preemption.victims:
                run = self._runs[victim.job]
                self._note(now, Happening.PREEMPT, run, preemption.job.id)
                heappush(self._agenda, (now + victim.grace_ms, _ENDS, victim.job, len(run.outcome.attempts)))
        for start in plan.starts:
            self._start(start)

    def _stand(self, now: int, happening: Happening, job_id: str, standing: Standing, cause: str = "") -> None:
        run = self._runs[job_id]
        run.standing = standing
        self._note(now, happening, run, cause)

    def _start(self, start: Start) -> None:
        run = self._runs[start.job.id]
        run.started_ms = start.at_ms
        run.standing = _standing(start.placements)
        run.outcome.attempts.append(Attempt(start.at_ms, _nodes(start.placements), run.standing))
        heappush(self._agenda, (start.at_ms + run.left_ms, _ENDS, start.job.id, len(run.outcome.attempts)))
        self._note(start.at_ms, Happening.START, run)


def _standing(placements: Sequence[TaskPlacement]) -> Standing:
    borrowed = any(use.standing is Standing.BORROWED for placement in placements for use in placement.leaves)
    return Standing.BORROWED if borrowed else Standing.GUARANTEED


def _nodes(placements: Sequence[TaskPlacement]) -> dict[str, int]:
    gpus: dict[str, int] = {}
    for placement in placements:
        gpus[placement.node] = gpus.get(placement.node, 0) + len(placement.leaves)
    return gpus
