"""One pass over the waiting jobs: the order, and `decide` for whoever's turn it is."""

from collections.abc import Sequence
from dataclasses import replace

from scheduling import explain
from scheduling.deciding import Choice, Desk, Shape, right_missing
from scheduling.decisions import Plan, Reason, Start, Wait
from scheduling.jobs import Job
from scheduling.ordering import Line, interleaved


class Pass:
    """Makes the plan of one moment; the desk's ledger is its own and takes every start at once.

    1. Guaranteed jobs: inside a virtual cluster by its order; a job that waits holds back the later ones of
       its SKU chains (no backfill, so that a large gang does not starve). Between virtual clusters the job
       that was submitted first is looked at first.
    2. Opportunistic jobs, in the same way, on what no quota is owed.
    """

    def __init__(self, desk: Desk, now: int) -> None:
        self._desk = desk
        self._now = now
        self._lines: dict[str, Line] = {}
        self._starts: list[Start] = []
        self._waits: list[Wait] = []
        self._missing: dict[int, tuple[Shape, Reason | None]] = {}

    def run(self, guaranteed: dict[str, list[Job]], opportunistic: dict[str, list[Job]]) -> Plan:
        """Go through the queues."""
        for queues in (guaranteed, opportunistic):
            self._lines = {vc: Line() for vc in queues}
            for job in interleaved(queues):
                self._take(job)
        return Plan(self._now, starts=tuple(self._starts), waits=tuple(self._waits))

    def _take(self, job: Job) -> None:
        held = self._desk.hold(job)
        if held is not None:
            self._waits.append(Wait(job, held))
            return
        shape = self._desk.shapes.of(job)
        line = self._lines[job.vc]
        choices = _free_choices(line, shape)
        if shape.choices and not choices:
            self._wait(job, shape, self._held_back(job, shape, line))
            return
        answer = self._desk.decide(job, self._now, None, choices)
        if isinstance(answer, Wait):
            self._wait(job, shape, answer.reason)
        else:
            self._start(answer)

    def _start(self, start: Start) -> None:
        self._desk.apply(start)
        self._missing.clear()
        self._starts.append(start)
        placed = {placement.task for placement in start.placements}
        rest = tuple(task for task in start.job.wanted if task not in placed)
        if rest:
            self._take(replace(start.job, wanted=rest))

    def _wait(self, job: Job, shape: Shape, reason: Reason) -> None:
        line = self._lines[job.vc]
        self._waits.append(Wait(job, reason, line.ahead(shape.chains) + 1))
        line.add(job, shape.chains)

    def _held_back(self, job: Job, shape: Shape, line: Line) -> Reason:
        """The order holds the job back, unless it has no right to its GPUs anyway."""
        known = self._missing.get(id(shape))
        if known is None:
            known = self._missing[id(shape)] = (shape, self._right_missing(job, shape))
        missing = known[1]
        if missing is not None:
            return missing
        return explain.order(line.ahead(shape.chains), line.ahead_by_priority(job, shape.chains))

    def _right_missing(self, job: Job, shape: Shape) -> Reason | None:
        reasons = [right_missing(self._desk.ledger, job, choice) for choice in shape.choices]
        return reasons[0] if all(reasons) else None


def _free_choices(line: Line, shape: Shape) -> Sequence[Choice]:
    """The choices of a SKU whose chains no earlier job of the line waits for."""
    if line.held.isdisjoint(shape.chains):
        return shape.choices
    if not line.held.isdisjoint(shape.named):
        return ()
    return [choice for choice in shape.choices if choice.sku and choice.sku not in line.held]
