"""Preemption of loans inside a virtual cluster: a job that may borrow and finds nothing idle takes over what lower
priorities have on loan."""

from scheduling.cells.request import Choice, JobShape, apart
from scheduling.cycle.cycle_state import Cycle
from scheduling.cycle.takeover import Part, leaves_any, place_over, taking
from scheduling.model.elastic import EXTRA
from scheduling.model.job import Borrow, Job
from scheduling.model.plan import Preempt
from scheduling.model.snapshot import Running
from scheduling.preemption.victim_selection import spare_untouched


class OwnLoans:
    """The takeovers of a cycle."""

    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle
        self.state = cycle.state
        self._failed: set[int] = set()
        self._parts: dict[str, list[Part]] = {}

    def may_take(self, job: Job, shape: JobShape) -> bool:
        """Quick check: whether somebody may give way; after an equal job that found nobody, nobody does."""
        auto, lowest = job.borrow is Borrow.AUTO, self.state.loans.lowest
        return auto and shape.number not in self._failed and lowest(job.vc) < job.priority

    def take(self, job: Job, shape: JobShape, choices: tuple[Choice, ...]) -> Preempt | None:
        """Ends as few as needed of strictly lower priority: those that are leaving, then the lowest, then those that
        lose least work. The job will be on loan in their place, within the limits of its virtual cluster."""
        parts = [one for one in self._of(job.vc) if self._gives_way(one, job)] if self.may_take(job, shape) else []
        for choice in apart(choices, job.gang) if parts else ():
            answer = self._over(job, choice, parts) if choice.units[0].pools else None
            if answer is not None:
                return answer
        if choices == shape.choices and not job.loans_lost:
            self._failed.add(shape.number)
        return None

    def _over(self, job: Job, choice: Choice, parts: list[Part]) -> Preempt | None:
        def uses(chosen: set[int]) -> set[int] | None:
            start = place_over(self.state, job, choice, [parts[one] for one in chosen])
            if start is None:
                return None
            nodes = {place.node for place in start.placements}
            return {one for one in chosen if any(task.placement.node in nodes for task in parts[one].tasks)}

        chosen = spare_untouched(range(len(parts)), uses)
        gone = [parts[one] for one in sorted(chosen or ())]
        start = place_over(self.state, job, choice, gone) if gone else None
        return taking(self.state, start, gone) if start is not None else None

    def _gives_way(self, part: Part, job: Job) -> bool:
        """Whether its priority is strictly lower, and not all that it has is claimed. For a job that lost loans of late
        a loan that has only just begun does not count, unless it is an extra task's."""
        rested = part.job.priority == EXTRA or self.cycle.now - part.since_ms >= job.rest_ms
        return rested and part.job.priority < job.priority and leaves_any(self.state, part)

    def _of(self, vc: str) -> list[Part]:
        if vc not in self._parts:
            running = (one for one in self.state.running.values() if one.job.vc == vc or one.job.priority == EXTRA)
            begun = self.state.placer.costs.begun
            found = [part for one in running if one.job.id not in begun for part in _parts(one)]
            self._parts[vc] = sorted(found, key=self._price)
        return self._parts[vc]

    def _price(self, part: Part) -> tuple[bool, bool, int, int, int, str, str, int]:
        name, task = part.job.id, part.tasks[0].placement.task
        protected, _, counted, lost, _ = self.state.placer.costs.of(
            name, sum(len(one.placement.leaves) for one in part.tasks)
        )
        leaving = all(one.leaving for one in part.tasks)
        return not leaving, protected, part.job.priority, counted, lost, name, task.role, task.index


def _parts(running: Running) -> list[Part]:
    """A gang all of whose GPUs are on loan, else each such task."""
    if not running.job.preemptible:
        return []
    each = [running.tasks] if running.job.gang else [(task,) for task in running.tasks]
    found = []
    for tasks in each:
        uses = [use for task in tasks for use in task.placement.leaves]
        if uses and all(use.virtual_cell is None for use in uses):
            found.append(Part(running.job, tasks, max(task.started_ms for task in tasks)))
    return found
