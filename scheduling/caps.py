"""What the rules of a virtual cluster let one user, or the jobs of a high class, hold together."""

from collections.abc import Mapping

from scheduling import explain
from scheduling.decisions import Reason
from scheduling.fairness import user_cap
from scheduling.held import capped
from scheduling.jobs import Job
from scheduling.shapes import Choice, Shape, apart, needs_of
from scheduling.state import State


def over_cap(state: State, job: Job, needs: Mapping[str, int]) -> Reason | None:
    """Which limit the job would pass with these GPUs (by leaf type) more; None: none."""
    layout = state.desk.ledger.layout
    rules = layout.virtual_clusters[job.vc].rules
    mine = state.held.of_user(job.vc, job.user)
    for kind, need in needs.items():
        cap = user_cap(rules, layout.owned_gpus(job.vc, kind))
        if cap is not None and mine.get(kind, 0) + need > cap:
            return explain.user_limit(job, kind, mine.get(kind, 0), need, cap)
    held, needed = sum(mine.values()), sum(needs.values())
    if rules.user_gpus is not None and held + needed > rules.user_gpus:
        return explain.user_limit(job, "GPUs", held, needed, rules.user_gpus)
    lowest, most = rules.class_priority, rules.class_gpus
    if lowest is None or most is None or job.priority < lowest:
        return None
    held = state.held.of_class(job.vc)
    return explain.class_limit(job, lowest, held, needed, most) if held + needed > most else None


def is_capped(state: State, vc: str) -> bool:
    """Whether the rules limit what may be held, so that tasks are counted one by one."""
    return capped(state.desk.ledger.layout.virtual_clusters[vc].rules)


def within_caps(state: State, job: Job, choices: tuple[Choice, ...]) -> tuple[Choice, ...]:
    """What of these choices the rules of its virtual cluster leave a guaranteed job now."""
    if job.opportunistic or not is_capped(state, job.vc):
        return choices
    return tuple(one for one in apart(choices, job.gang) if over_cap(state, job, needs_of(one, job.gang)) is None)


def cap_passed(state: State, job: Job, shape: Shape) -> Reason | None:
    """Which limit of its virtual cluster's rules the guaranteed job would pass whatever it chose; None: none."""
    if not is_capped(state, job.vc) or within_caps(state, job, shape.choices):
        return None
    needs = min((needs_of(choice, job.gang) for choice in shape.choices), key=lambda one: sum(one.values()), default={})
    return over_cap(state, job, needs)
