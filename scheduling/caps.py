"""What the rules of a virtual cluster let one user, or the jobs of a high class, hold together."""

from collections.abc import Mapping

from scheduling import explain
from scheduling.cells import Rules
from scheduling.decisions import Reason
from scheduling.fairness import user_cap
from scheduling.jobs import Job
from scheduling.layout import Layout
from scheduling.shapes import Shape, needs_of
from scheduling.snapshot import Running
from scheduling.state import State


def capped(rules: Rules) -> bool:
    """Whether there is any such limit."""
    return not (rules.user_factor is None and rules.user_gpus is None and rules.class_gpus is None)


def over_cap(layout: Layout, running: Mapping[str, Running], job: Job, needs: Mapping[str, int]) -> Reason | None:
    """Which limit the job would pass with these GPUs (by leaf type) more; None: none."""
    rules = layout.virtual_clusters[job.vc].rules
    team = [one for one in running.values() if one.job.vc == job.vc]
    mine = _held(layout, [one for one in team if one.job.user == job.user])
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
    held = sum(_held(layout, [one for one in team if one.job.priority >= lowest]).values())
    return explain.class_limit(job, lowest, held, needed, most) if held + needed > most else None


def _held(layout: Layout, jobs: list[Running]) -> dict[str, int]:
    """GPUs of guaranteed jobs, by leaf type; those on loan count too."""
    found: dict[str, int] = {}
    for one in jobs:
        for task in one.tasks:
            count = 0 if one.job.opportunistic else len(task.placement.leaves)
            number = layout.position.get(task.placement.node)
            if count and number is not None:
                kind = layout.nodes[number].cell_type
                found[kind] = found.get(kind, 0) + count
    return found


def is_capped(state: State, vc: str) -> bool:
    """Whether the rules limit what may be held, so that tasks are counted one by one."""
    return capped(state.desk.ledger.layout.virtual_clusters[vc].rules)


def cap_passed(state: State, job: Job, shape: Shape) -> Reason | None:
    """Which limit of its virtual cluster's rules the guaranteed job would pass; None: none."""
    if not is_capped(state, job.vc):
        return None
    needs = min((needs_of(choice, job.gang) for choice in shape.choices), key=lambda one: sum(one.values()), default={})
    return over_cap(state.desk.ledger.layout, state.running, job, needs)
