"""Preemption of loans inside a virtual cluster: a job that may borrow and finds nothing idle takes over what lower
priorities have on loan."""

from collections.abc import Collection
from typing import NamedTuple

from scheduling.cells.request import Choice, JobShape, apart
from scheduling.cycle.cycle_state import Cycle
from scheduling.cycle.within_caps import may_borrow
from scheduling.model.job import Borrow, Job, TaskPlacement
from scheduling.model.plan import Preempt, Start
from scheduling.model.snapshot import Running, RunningTask
from scheduling.preemption.victim_cost import victims
from scheduling.preemption.victim_selection import spare_untouched


class Part(NamedTuple):
    """Tasks on loan that end together, and since when the last of them has run."""

    job: Job
    tasks: tuple[RunningTask, ...]
    since_ms: int


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
            start = self._place(job, choice, [parts[one] for one in chosen])
            if start is None:
                return None
            nodes = {place.node for place in start.placements}
            return {one for one in chosen if any(task.placement.node in nodes for task in parts[one].tasks)}

        chosen = spare_untouched(range(len(parts)), uses)
        gone = [parts[one] for one in sorted(chosen or ())]
        start = self._place(job, choice, gone) if gone else None
        if start is None:
            return None
        taken = [(part.job.id, task.placement.task) for part in gone for task in part.tasks]
        return Preempt(job, start.placements, victims(self.state.running, taken), self.cycle.now)

    def _place(self, job: Job, choice: Choice, gone: Collection[Part]) -> Start | None:
        """Where it goes once these are gone, within the limits of its virtual cluster."""
        given: dict[str, int] = {}
        for place in (task.placement for part in gone for task in part.tasks):
            for kind, count in self._given(place).items():
                given[kind] = given.get(kind, 0) + count
        if not may_borrow(self.state, job, choice, given):
            return None
        ending = frozenset((part.job.id, task.placement.task) for part in gone for task in part.tasks)
        return self.state.placer.borrowed(job, choice, ending=ending)

    def _given(self, place: TaskPlacement) -> dict[str, int]:
        """GPUs by leaf type that the task leaves and that are not claimed."""
        allocator = self.state.placer.allocator
        number = allocator.layout.position.get(place.node)
        if number is None or not place.leaves:
            return {}
        free = allocator.mask_of(place) & ~allocator.claimed[number]
        return {allocator.layout.nodes[number].cell_type: free.bit_count()}

    def _gives_way(self, part: Part, job: Job) -> bool:
        """Whether its priority is strictly lower, and not all that it has is claimed. For a job that lost loans of late
        a loan that has only just begun does not count."""
        rested = self.cycle.now - part.since_ms >= job.rest_ms
        return (
            rested
            and part.job.priority < job.priority
            and any(any(self._given(task.placement).values()) for task in part.tasks)
        )

    def _of(self, vc: str) -> list[Part]:
        if vc not in self._parts:
            running = (one for one in self.state.running.values() if one.job.vc == vc)
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
