"""Jobs that could preempt by right, but for which others would lose much work: they start on idle GPUs instead.

Only jobs that may run on loan anyway. Where the least lost work pays first (`FirstToPay.LOSS`), anybody's work counts;
where shares on loan decide, only that of lower priorities inside the quota: loans are there to be taken back. The job
keeps its turn and its virtual cells, as every job on loan does: when the GPUs are wanted back, it takes its own.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from scheduling.cells.request import Choice, JobShape, apart
from scheduling.cycle.cycle_state import Cycle, QueueProgress, Unplaced
from scheduling.cycle.preemptors import Preemptors
from scheduling.cycle.promotion import Promotions
from scheduling.cycle.takeover import OverExtras
from scheduling.cycle.within_caps import may_borrow, within_caps
from scheduling.model.cluster import FirstToPay
from scheduling.model.elastic import whole_name
from scheduling.model.job import Borrow, Job
from scheduling.model.plan import Preempt, Start
from scheduling.placement.virtual_placement import VirtualPlacement

WORTH_MS = 3_600_000
"""Work that others must lose, for each GPU that the job gets, before it starts on loan instead."""

Choices = tuple[Choice, ...]

ByRight = Callable[[Job, Choices, Mapping[int, int]], Start | Preempt | None]
"""What a job gets inside its quota beside what is reserved for others."""


class Deferred(NamedTuple):
    """A job that is placed after all others: its choices, what was reserved before its turn, and its `own` cells, which
    are reserved since."""

    job: Job
    shape: JobShape
    choices: Choices
    progress: QueueProgress
    reserved: dict[int, int]
    own: list[VirtualPlacement]


class BorrowBeforePreempting:
    """The deferred jobs of a cycle. They are placed last, so that no start inside a quota finds GPUs lent just now."""

    def __init__(self, cycle: Cycle, promotions: Promotions, claimants: Preemptors, by_right: ByRight) -> None:
        policy = cycle.state.placer.allocator.layout.policy
        self.cycle = cycle
        self.state = cycle.state
        self._on = policy.lending and policy.promotion
        self._by_loss = policy.first_to_pay is FirstToPay.LOSS
        self._promotions = promotions
        self._preemptors = claimants
        self._by_right = by_right
        self._deferred: deque[Deferred] = deque()
        self._begun: dict[str, tuple[Start, Deferred]] = {}
        self._extras = OverExtras(cycle)

    def defers(self, answer: Preempt, shape: JobShape, choices: Choices, progress: QueueProgress) -> bool:
        """Whether the job would make others lose work although it may have idle GPUs on loan; then its cells are
        reserved."""
        job = answer.job
        started = job.gang and job.id in self.state.running
        claims = self._preemptors.set_aside.get(job.id, {}).values()
        victims = {claim.victim for claim in claims if claim.victim is not None}
        if not self._on or job.borrow is not Borrow.AUTO or started or any(one == whole_name(one) for one in victims):
            return False
        if not self._takes_work(answer) or not (claims or self._on_loan(job, choices)):
            return False
        reserved = dict(progress.reserved)
        own = self._promotions.reserve(answer, shape, progress)
        if not claims:  # else it starts on those, once the last extra task is gone
            self._deferred.append(Deferred(job, shape, choices, progress, reserved, own))
        return True

    def _takes_work(self, answer: Preempt) -> bool:
        """Whether the victims would lose much work that counts."""
        gpus = sum(len(one.leaves) for one in answer.placements)
        costs, running = self.state.placer.costs, self.state.running
        names = [gone.job for gone in answer.victims]
        if answer.demotes or answer.releases:
            return False
        if not self._by_loss and all(any(task.on_loan for task in running[name].tasks) for name in names):
            return False
        return sum(costs.of(name)[2] for name in names) >= WORTH_MS * gpus

    def _on_loan(self, job: Job, choices: Choices) -> Start | Preempt | None:
        """Where it may start on idle GPUs, else on those of extra tasks."""
        state, mine = self.state, within_caps(self.state, job, choices)
        for choice in apart(mine, job.gang):
            if state.placer.roomy(choice, job.gang) and may_borrow(state, job, choice):
                start = state.placer.borrowed(job, choice)
                if start is not None:
                    return start
        return self._extras.take(job, mine)

    def settle(self) -> None:
        """Starts the deferred jobs on idle GPUs that are left, or else in their cells."""
        while self._deferred:
            one = self._deferred.popleft()
            self.cycle.busy.add(one.job.vc)
            start = self._on_loan(one.job, one.choices)
            if start is None:
                self._take_cells(one)
                continue
            if one.job.gang and isinstance(start, Start):
                self._begun[one.job.id] = start, one
            rest = self.cycle.carry_out(start)
            if rest is not None:
                shape, choices = self.cycle.choices_of_rest(rest, one.choices)
                self._deferred.appendleft(one._replace(job=rest, shape=shape, choices=choices))

    def _take_cells(self, one: Deferred) -> None:
        self._preemptors.stand_aside()
        answer = self._by_right(one.job, one.choices, one.reserved)
        while isinstance(answer, Preempt) and self._retract(answer):
            answer = self._by_right(one.job, one.choices, one.reserved)
        one.progress.reserved.settle(one.own)
        if answer is None or (isinstance(answer, Preempt) and self._has_just_begun(answer)):
            self.cycle.unplaced.append(Unplaced(one.job, one.shape, one.choices))
        else:
            self.cycle.carry_out(answer)
        self._preemptors.step_in()

    def _has_just_begun(self, answer: Preempt) -> bool:
        """Whether some of the victims have tasks that start in this cycle: the next one decides."""
        begun = {start.job.id for start in self.cycle.starts}
        return any(gone.job in begun for gone in answer.victims)

    def _retract(self, answer: Preempt) -> bool:
        """Takes back starts on loan, in this cycle, of victims, and defers these again; whether there were any."""
        begun = [self._begun.pop(gone.job) for gone in answer.victims if gone.job in self._begun]
        for start, one in begun:
            self.cycle.retract(start)
            self._deferred.append(one)
        return bool(begun)
