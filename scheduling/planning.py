"""One pass over the waiting jobs: the order, and `decide` for whoever's turn it is."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from scheduling import explain
from scheduling.deciding import Choice, Desk, Shape, right_missing
from scheduling.decisions import Plan, Reason, Start, Wait
from scheduling.jobs import Job
from scheduling.ordering import Line, interleaved


class _Waiting(NamedTuple):
    """A job that does not start, until the end of the pass: its place in the order, and who is ahead."""

    job: Job
    shape: Shape
    choices: Sequence[Choice]
    ahead: int
    by_priority: int


class Pass:
    """Makes the plan of one moment; the desk's ledger is its own and takes every start at once.

    1. Guaranteed jobs: inside a virtual cluster by its order; a job that waits holds back the later ones of
       its SKU chains (no backfill, so that a large gang does not starve). Between virtual clusters the job
       that was submitted first is looked at first.
    2. Opportunistic jobs, in the same way, on what no quota is owed.
    3. Again from 1 where something started and a task waits that leaves idle GPUs their reserve: fewer GPUs
       are idle now. Other tasks find only less room than before.
    4. The reasons of those that wait, with the numbers that hold when all starts are carried out.
    """

    def __init__(self, desk: Desk, now: int) -> None:
        self._desk = desk
        self._now = now
        self._lines: dict[str, Line] = {}
        self._starts: list[Start] = []
        self._left: dict[str, Job | None] = {}
        self._held: list[Wait] = []
        self._waiting: list[_Waiting] = []
        self._missing: dict[int, Reason | None] = {}

    def run(self, guaranteed: dict[str, list[Job]], opportunistic: dict[str, list[Job]]) -> Plan:
        """Go through the queues."""
        while self._round((guaranteed, opportunistic)) and any(one.shape.modest for one in self._waiting):
            self._held, self._waiting = [], []
        told = [Wait(one.job, self._reason(one), one.ahead + 1) for one in self._waiting]
        return Plan(self._now, starts=tuple(self._starts), waits=(*told, *self._held))

    def _round(self, kinds: Sequence[dict[str, list[Job]]]) -> bool:
        """Everybody's turn once, but for those that started; whether something started."""
        before = len(self._starts)
        for queues in kinds:
            self._lines = {vc: Line() for vc in queues}
            for job in interleaved(queues):
                left = self._left.get(job.id, job)
                if left is not None:
                    self._take(left)
        return len(self._starts) > before

    def _take(self, job: Job) -> None:
        held = self._desk.hold(job)
        if held is not None:
            self._held.append(Wait(job, held))
            return
        shape = self._desk.shapes.of(job)
        line = self._lines[job.vc]
        choices = _free_choices(line, shape)
        start = self._desk.start(job, self._now, choices) if choices else None
        if start is not None:
            self._start(start)
            return
        ahead, by_priority = line.join(job.priority, shape.chains)
        self._waiting.append(_Waiting(job, shape, choices, ahead, by_priority))

    def _start(self, start: Start) -> None:
        self._desk.apply(start)
        self._starts.append(start)
        placed = {placement.task for placement in start.placements}
        rest = tuple(task for task in start.job.wanted if task not in placed)
        left = self._left[start.job.id] = replace(start.job, wanted=rest) if rest else None
        if left is not None:
            self._take(left)

    def _reason(self, one: _Waiting) -> Reason:
        """The right to the GPUs comes first; then the order, if it keeps the job from a SKU; then room."""
        missing = self._right_missing(one.job, one.shape)
        if missing is not None:
            return missing
        held = [choice for choice in one.shape.choices if choice not in one.choices]
        if any(right_missing(self._desk.ledger, one.job, choice) is None for choice in held):
            return explain.order(one.ahead, one.by_priority)
        return self._desk.reason(one.job, one.choices)

    def _right_missing(self, job: Job, shape: Shape) -> Reason | None:
        """Why the job has no right to GPUs under any choice; jobs of one shape share the answer."""
        key = id(shape)
        if key not in self._missing:
            reasons = [right_missing(self._desk.ledger, job, choice) for choice in shape.choices]
            self._missing[key] = reasons[0] if reasons and all(reasons) else None
        return self._missing[key]


def _free_choices(line: Line, shape: Shape) -> Sequence[Choice]:
    """The choices of a SKU whose chains no earlier job of the line waits for."""
    if line.held.isdisjoint(shape.chains):
        return shape.choices
    if not line.held.isdisjoint(shape.named):
        return ()
    return [choice for choice in shape.choices if choice.sku and choice.sku not in line.held]
