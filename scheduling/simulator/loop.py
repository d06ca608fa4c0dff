"""The event loop: a trace's jobs through one engine, from event to event, until nothing happens any more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import heapify, heappop, heappush

from scheduling.engine import Engine
from scheduling.model.job import Job, LeafUse, Standing, TaskPlacement
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
    RESIZE = "resize"
    IDLE = "idle"
    BACK = "back"
    STOP = "stop"
    FINISH = "finish"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a job at `at_ms`.

    `standing` is by what right it holds its GPUs afterwards, None while it holds none. `cause` is the preemptor,
    or what a demotion was for. `gpus` are those it holds, or waits for.
    """

    at_ms: int
    happening: Happening
    job: TraceJob
    standing: Standing | None = None
    cause: str = ""
    gpus: int = 0


@dataclass(slots=True)
class Attempt:
    """One run of a job: from when to when (ms; None: still running), and its GPUs on each node, which are more or fewer
    in the next where a job grows or shrinks."""

    start_ms: int
    nodes: dict[str, int]
    standing: Standing
    end_ms: int | None = None

    @property
    def gpus(self) -> int:
        """The GPUs it held."""
        return sum(self.nodes.values())


@dataclass(slots=True)
class Outcome:
    """What became of a job. `finish_ms` None: it never ended; `lost_ms`: run time it had to spend again.

    `idle_ms`: GPU time that it held and left idle. `returns_ms`: how long each time its person came back to an idle
    session until the GPU was there. `first_output_ms`: when it computed first, where that is not when it started.
    `resizes`: how often it grew or shrank. `parked`: how often it was parked, and `resumed`: went on
    from there.
    """

    job: TraceJob
    attempts: list[Attempt] = field(default_factory=list)
    preemptions: int = 0
    lost_ms: int = 0
    finish_ms: int | None = None
    idle_ms: int = 0
    returns_ms: list[int] = field(default_factory=list)
    first_output_ms: int | None = None
    resizes: int = 0
    parked: int = 0
    resumed: int = 0

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


FULL_SPEED = 1_000


@dataclass(slots=True)
class Run:
    """A job between its events: the run time that is left at full speed, since when it runs, where, and how fast (in
    thousandths). `version` tells ends that still hold from those that a change overtook, `starts` how often the
    engine started it, `preemptor` for whom it was preempted last; it `claims` GPUs that victims have
    still to leave. Without `places` it is the guest of another job on that one's GPU, of which the engine knows
    nothing."""

    request: Job
    outcome: Outcome
    left_ms: int
    started_ms: int = 0
    standing: Standing | None = None
    places: tuple[TaskPlacement, ...] = ()
    speed: int = FULL_SPEED
    version: int = 0
    starts: int = 0
    preemptor: str = ""
    claims: bool = False

    @property
    def leaves(self) -> list[str]:
        """The GPUs it was given by the engine."""
        return [use.leaf for place in self.places for use in place.leaves]

    def done_ms(self, now: int) -> int:
        """What it has done of its run time since it started, or since its speed changed."""
        return (now - self.started_ms) * self.speed // FULL_SPEED


class Addition:
    """What a simulation adds to the engine's own sharing; this one adds nothing."""

    def before(self, now: int) -> None:
        """The engine is about to decide."""

    def after(self, now: int) -> None:
        """What the engine decided is carried out."""

    def started(self, now: int, run: Run) -> None:
        """The engine started the job."""

    def left(self, now: int, run: Run, happening: Happening) -> None:
        """The job gave its GPUs back, at its end or before; `places` still tells which."""

    def requeue(self, now: int, run: Run) -> bool:
        """A victim is gone; True if it was seen to that it runs again."""
        return False

    def called(self, now: int, run: Run, word: str) -> None:
        """The moment came for which `Loop.call` was asked."""


_ENDS, _SUBMITS, _CALLS = 0, 1, 2


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
        self.engine = engine
        self.runs = {job.id: Run(request, Outcome(job), job.duration_ms) for job, request in jobs}
        self.additions: list[Addition] = []
        self.waiting: dict[str, Run] = {}
        self._restart_cost = restart_cost
        self._ended = ended
        self._agenda = [(run.outcome.job.submit_ms, _SUBMITS, job_id, 0, "") for job_id, run in self.runs.items()]
        heapify(self._agenda)

    def run(self) -> list[Outcome]:
        """What became of each job, in the order they were given; jobs may be left that never start or end."""
        while self._agenda:
            now = self._agenda[0][0]
            while self._agenda and self._agenda[0][0] == now:
                _, kind, job_id, version, word = heappop(self._agenda)
                run = self.runs[job_id]
                if kind == _SUBMITS:
                    self.submit(run)
                    self.note(now, Happening.SUBMIT, run)
                elif kind == _CALLS:
                    for addition in self.additions:
                        addition.called(now, run, word)
                elif run.standing is not None and version in (run.version, -run.starts):
                    self._end(now, run)
            for addition in self.additions:
                addition.before(now)
            self.carry_out(self.engine.advance(now))
            for addition in self.additions:
                addition.after(now)
        return [run.outcome for run in self.runs.values()]

    def submit(self, run: Run, request: Job | None = None) -> None:
        """The job waits, for what it asks for or for less."""
        self.engine.submit(request or run.request)
        self.waiting[run.request.id] = run

    def note(self, now: int, happening: Happening, run: Run, cause: str = "") -> None:
        """Tells what happened."""
        gpus = run.outcome.job.gpus if run.standing is None else run.outcome.attempts[-1].gpus
        self.events.append(Event(now, happening, run.outcome.job, run.standing, cause, gpus))

    def call(self, at: int, run: Run, word: str) -> None:
        """Asks for the additions to be called then."""
        heappush(self._agenda, (at, _CALLS, run.request.id, 0, word))

    # Ends

    def _end(self, now: int, run: Run) -> None:
        if run.done_ms(now) < run.left_ms:
            self.stop(now, run)
            return
        if run.places:
            self.engine.finish(run.request.id)
        self.leave(now, Happening.FINISH, run)
        self.over(now, run)

    def over(self, now: int, run: Run) -> None:
        """The job is done."""
        run.outcome.finish_ms = now
        self._ended()

    def stop(self, now: int, run: Run) -> None:
        """A victim is gone: it waits again, at its old place, with what it has still to do."""
        run.outcome.preemptions += 1
        if any(addition.requeue(now, run) for addition in self.additions):
            return
        self.lose(now, run)
        if run.places:
            self.engine.finish(run.request.id, run.request.wanted)
        self.submit(run)
        self.leave(now, Happening.STOP, run)

    def lose(self, now: int, run: Run) -> None:
        """What a job that ends before its time has to do again."""
        done = run.done_ms(now)
        lost = self._restart_cost(run.outcome.job.gpus) if self._restart_cost else done
        run.outcome.lost_ms += lost
        run.left_ms += lost - done

    def leave(self, now: int, happening: Happening, run: Run) -> None:
        """The job holds nothing any more."""
        run.outcome.attempts[-1].end_ms = now
        run.standing = None
        for addition in self.additions:
            addition.left(now, run, happening)
        run.places, run.speed = (), FULL_SPEED
        self.note(now, happening, run)

    # Decisions

    def carry_out(self, plan: Plan) -> None:
        """What the engine decided and did; here it only becomes the jobs' history."""
        now = plan.at_ms
        for demotion in plan.demotions:
            self._stand(now, Happening.DEMOTE, demotion.job, Standing.BORROWED, demotion.cause)
        for answer in plan.answers:
            for job_id in answer.demotes:
                self._stand(now, Happening.DEMOTE, job_id, Standing.BORROWED, answer.job.id)
        for promotion in plan.promotions:
            self._stand(now, Happening.PROMOTE, promotion.job, Standing.GUARANTEED)
            new = {place.task: place for place in promotion.placements}
            run = self.runs[promotion.job]
            run.places = tuple(new.get(place.task, place) for place in run.places)
        for preemption in plan.preemptions:
            self.runs[preemption.job.id].claims = True
            for victim in preemption.victims:
                run = self.runs[victim.job]
                run.preemptor = preemption.job.id
                self.note(now, Happening.PREEMPT, run, preemption.job.id)
                heappush(self._agenda, (now + victim.grace_ms, _ENDS, victim.job, -run.starts, ""))
        for start in plan.starts:
            self.start(start)

    def _stand(self, now: int, happening: Happening, job_id: str, standing: Standing, cause: str = "") -> None:
        run = self.runs[job_id]
        run.standing = standing
        if standing is Standing.BORROWED:
            run.places = tuple(place._replace(leaves=lent(place.leaves)) for place in run.places)
        self.note(now, happening, run, cause)

    def start(self, start: Start) -> None:
        """The engine started a job."""
        run, now = self.runs[start.job.id], start.at_ms
        run.places, run.standing, run.starts = start.placements, standing_of(start.placements), run.starts + 1
        run.claims = False
        self.waiting.pop(start.job.id, None)
        for addition in self.additions:
            addition.started(now, run)
        self.begin(now, run, _nodes(start.placements))
        self.note(now, Happening.START, run)

    def begin(self, now: int, run: Run, nodes: dict[str, int]) -> None:
        """The job runs from now on, on so many GPUs of these nodes, at its speed."""
        assert run.standing is not None
        run.outcome.attempts.append(Attempt(now, nodes, run.standing))
        self.schedule(now, run)

    def schedule(self, now: int, run: Run) -> None:
        """When the job will end at its speed, which overtakes what was said before."""
        run.started_ms = now
        run.version += 1
        if run.speed:
            ends = now + -(-run.left_ms * FULL_SPEED // run.speed)
            heappush(self._agenda, (ends, _ENDS, run.request.id, run.version, ""))

    def pace(self, now: int, run: Run, speed: int) -> None:
        """Changes the speed of a job that runs."""
        run.left_ms = max(0, run.left_ms - run.done_ms(now))
        run.speed = speed
        self.schedule(now, run)


def lent(leaves: Iterable[LeafUse]) -> tuple[LeafUse, ...]:
    """The same GPUs on loan."""
    return tuple(LeafUse(use.leaf, None, Standing.BORROWED) for use in leaves)


def standing_of(placements: Sequence[TaskPlacement]) -> Standing:
    borrowed = any(use.standing is Standing.BORROWED for placement in placements for use in placement.leaves)
    return Standing.BORROWED if borrowed else Standing.GUARANTEED


def _nodes(placements: Sequence[TaskPlacement]) -> dict[str, int]:
    gpus: dict[str, int] = {}
    for placement in placements:
        gpus[placement.node] = gpus.get(placement.node, 0) + len(placement.leaves)
    return gpus
