"""What would become of one job alone, without the queue's order."""

from collections.abc import Callable, Sequence

from scheduling.cells.request import Choice, JobShape, apart
from scheduling.cycle.context import EngineContext
from scheduling.cycle.cycle_state import CycleState
from scheduling.cycle.diagnose import alone
from scheduling.cycle.preemptors import is_for_loan
from scheduling.cycle.within_caps import cap_exceeded, may_borrow, within_caps
from scheduling.diagnosis import reasons as explain
from scheduling.model.job import Job
from scheduling.model.plan import Preempt, Reason, Start, Wait
from scheduling.queue.caps import capped


def decide(
    engine: EngineContext, state: Callable[[], CycleState], job: Job, now: int, may_preempt: bool
) -> Start | Preempt | Wait:
    """The answer at `now` (ms); the `state` of a cycle is made only where limits or a reason need it. What is claimed
    for a loan is open to a guaranteed job, as in a cycle."""
    allocator, claims = engine.allocator, {} if job.opportunistic else engine.claims.by_claimant
    allocator.begin()
    try:
        for name, claimed in claims.items():
            if is_for_loan(claimed):
                allocator.unclaim(name, claimed)
        return _decide(engine, state, job, now, may_preempt)
    finally:
        allocator.rollback()


def _decide(
    engine: EngineContext, state: Callable[[], CycleState], job: Job, now: int, may_preempt: bool
) -> Start | Preempt | Wait:
    layout = engine.context.layout
    reason = explain.ineligible(job, layout)
    if reason is not None:
        return Wait(job, reason)
    shape, placer = engine.context.shapes.of(job), engine.placer(now)
    limited = not job.opportunistic and capped(layout.team(job.vc).rules)
    choices = _within_limits(state(), job, shape) if limited or job.opportunistic else shape.choices
    if isinstance(choices, Reason):
        return Wait(job, choices)
    for choice in choices:
        answer = (
            placer.borrowed(job, choice)
            if job.opportunistic
            else placer.guaranteed(job, choice, may_preempt=may_preempt, one=limited)
        )
        if answer is not None:
            return answer
    return Wait(job, alone(state(), job, shape))


def _within_limits(state: CycleState, job: Job, shape: JobShape) -> Sequence[Choice] | Reason:
    """The choices that the virtual cluster's limits allow the job, else the limit that it would exceed."""
    if not job.opportunistic:
        return cap_exceeded(state, job, shape) or within_caps(state, job, shape.choices)
    return [one for one in apart(shape.choices, job.gang) if may_borrow(state, job, one)]
