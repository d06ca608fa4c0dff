"""What a virtual cluster's rules allow one user, or jobs of a high priority, to hold together, and to borrow."""

from collections.abc import Mapping

from scheduling.cells.request import Choice, JobShape, apart, needs_of
from scheduling.cycle.cycle_state import CycleState
from scheduling.diagnosis import reasons as explain
from scheduling.model.job import Job
from scheduling.model.plan import Reason
from scheduling.queue.caps import capped, limit_exceeded

_NOTHING: Mapping[str, int] = {}


def over_cap(state: CycleState, job: Job, needs: Mapping[str, int]) -> Reason | None:
    """The limit that the job would exceed with these GPUs (by leaf type) more, as a reason; None: none."""
    mine, of_class = state.limit_usage.of_user(job.vc, job.user), state.limit_usage.of_class(job.vc)
    limit = limit_exceeded(state.placer.allocator.layout, job, needs, mine, of_class)
    if limit is None:
        return None
    if limit.lowest is None:
        return explain.user_limit(job, limit.kind or "GPUs", limit.used, limit.needed, limit.most)
    return explain.class_limit(job, limit.lowest, limit.used, limit.needed, limit.most)


def is_capped(state: CycleState, vc: str) -> bool:
    """Whether the rules limit what may be held, so that tasks are counted one by one."""
    return capped(state.placer.allocator.layout.team(vc).rules)


def within_caps(state: CycleState, job: Job, choices: tuple[Choice, ...]) -> tuple[Choice, ...]:
    """Those of the choices that the rules allow a guaranteed job now."""
    if job.opportunistic or not is_capped(state, job.vc):
        return choices
    return tuple(one for one in apart(choices, job.gang) if over_cap(state, job, needs_of(one, job.gang)) is None)


def cap_exceeded(state: CycleState, job: Job, shape: JobShape) -> Reason | None:
    """The limit that a guaranteed job would exceed whatever it chose, as a reason; None: none."""
    if not is_capped(state, job.vc) or within_caps(state, job, shape.choices):
        return None
    needs = min((needs_of(choice, job.gang) for choice in shape.choices), key=lambda one: sum(one.values()), default={})
    return over_cap(state, job, needs)


def may_borrow(
    state: CycleState, job: Job, choice: Choice, own: Mapping[str, int] = _NOTHING, given: Mapping[str, int] = _NOTHING
) -> bool:
    """Whether the limits of borrowing and lending leave room for the job, once so many GPUs (by leaf type) are `given`
    back for it, so many of them by its `own` virtual cluster."""
    needs, vc = needs_of(choice, job.gang), state.placer.allocator.layout.team(job.vc)
    return not (
        state.loans.within_own(vc, _less(needs, own))
        or state.loans.within_lent(state.placer.allocator, _less(needs, given))
    )


def _less(needs: Mapping[str, int], given: Mapping[str, int]) -> Mapping[str, int]:
    return {kind: count - given.get(kind, 0) for kind, count in needs.items()} if given else needs
