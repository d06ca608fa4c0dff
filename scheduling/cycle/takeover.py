"""Takeover of loans: a job that borrows and finds nothing idle gets the place of tasks that give way to it."""

from collections.abc import Collection
from typing import NamedTuple

from scheduling.cells.request import Choice, apart
from scheduling.cycle.cycle_state import Cycle, CycleState
from scheduling.cycle.within_caps import may_borrow
from scheduling.model.job import Job, TaskPlacement
from scheduling.model.plan import Preempt, Start
from scheduling.model.snapshot import RunningTask
from scheduling.preemption.victim_cost import victims
from scheduling.preemption.victim_selection import spare_most


class Part(NamedTuple):
    """Tasks on loan that end together, and since when the last of them has run."""

    job: Job
    tasks: tuple[RunningTask, ...]
    since_ms: int


def place_over(state: CycleState, job: Job, choice: Choice, gone: Collection[Part]) -> Start | None:
    """Where the job goes once these are gone, within the limits of its virtual cluster."""
    own, every = dict[str, int](), dict[str, int]()
    for part in gone:
        for task in part.tasks:
            for kind, count in given(state, task.placement).items():
                every[kind] = every.get(kind, 0) + count
                if part.job.vc == job.vc:
                    own[kind] = own.get(kind, 0) + count
    if not may_borrow(state, job, choice, own, every):
        return None
    ending = frozenset((part.job.id, task.placement.task) for part in gone for task in part.tasks)
    return state.placer.borrowed(job, choice, ending=ending)


def given(state: CycleState, place: TaskPlacement) -> dict[str, int]:
    """GPUs by leaf type that the task leaves and that are not claimed."""
    allocator = state.placer.allocator
    number = allocator.layout.position.get(place.node)
    if number is None or not place.leaves:
        return {}
    free = allocator.mask_of(place) & ~allocator.claimed[number]
    return {allocator.layout.nodes[number].cell_type: free.bit_count()}


def leaves_any(state: CycleState, part: Part) -> bool:
    """Whether not all that it has is claimed."""
    return any(any(given(state, task.placement).values()) for task in part.tasks)


def taking(state: CycleState, start: Start, gone: Collection[Part]) -> Preempt:
    """The start as a preemption of these."""
    taken = [(part.job.id, task.placement.task) for part in gone for task in part.tasks]
    return Preempt(start.job, start.placements, victims(state.running, taken), start.at_ms)


class OverExtras:
    """A job that borrows takes over GPUs of extra tasks, whoever's they are: these run only where nobody waits."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self.state = cycle.state
        self._parts: list[Part] | None = None
        self._seen = 0

    def take(self, job: Job, choices: Collection[Choice]) -> Preempt | None:
        """Ends as few extra tasks as needed: those that are leaving, then those of the highest index."""
        parts = self._all() if self.state.elastic.extras else []
        for choice in apart(choices, job.gang) if parts else ():
            answer = self._over(job, choice, parts) if choice.units[0].pools else None
            if answer is not None:
                return answer
        return None

    def _over(self, job: Job, choice: Choice, parts: list[Part]) -> Preempt | None:
        start = place_over(self.state, job, choice, parts)
        if start is None:
            return None
        answer = None
        if self.state.placer.borrowed(job, choice) is None:
            nodes = frozenset(place.node for place in start.placements)
            there = [one for one in parts if one.tasks[0].placement.node in nodes]
            answer = self._fewest(job._replace(only_nodes=nodes), choice, there)
        if answer is None:  # a limit is in the way
            answer = self._fewest(job, choice, sorted(parts, key=lambda one: one.job.vc != job.vc))
        return (answer or taking(self.state, start, parts))._replace(job=job)

    def _fewest(self, job: Job, choice: Choice, parts: list[Part]) -> Preempt | None:
        def start(some: set[int]) -> Start | None:
            return place_over(self.state, job, choice, [parts[one] for one in some])

        chosen = spare_most(range(len(parts)), lambda some: start(some) is not None)
        found = start(chosen) if chosen is not None else None
        return taking(self.state, found, [parts[one] for one in chosen or ()]) if found is not None else None

    def _all(self) -> list[Part]:
        """Extra tasks with GPUs that nobody claims, in order."""
        fresh, self._seen = self._cycle.preemptions[self._seen :], len(self._cycle.preemptions)
        if self._parts is None:
            names = [name for some in self.state.elastic.extras.values() for name in some.values()]
            rows = (self.state.running[name] for name in names)
            parts = (Part(one.job, one.tasks, one.tasks[0].started_ms) for one in rows)
            self._parts = sorted([one for one in parts if leaves_any(self.state, one)], key=self._price)
        elif fresh:
            nodes = {place.node for one in fresh for place in one.placements}
            self._parts = [
                one for one in self._parts if one.tasks[0].placement.node not in nodes or leaves_any(self.state, one)
            ]
        return self._parts

    def _price(self, part: Part) -> tuple[bool, int, int, str]:
        *_, counted, lost, _ = self.state.placer.costs.of(part.job.id)
        return not part.tasks[0].leaving, counted, lost, part.job.id
