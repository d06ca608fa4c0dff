"""The limits of a virtual cluster's rules on what one user, or the jobs of a high class, hold together: the engine asks
with each start, and a submission asks with nothing held."""

from collections.abc import Mapping
from typing import NamedTuple

from scheduling.fairness import user_cap
from scheduling.jobs import Job
from scheduling.layout import Layout


class Limit(NamedTuple):
    """One that would be passed. `kind`: the leaf type that it counts, empty for all GPUs together; `lowest`: it counts
    the jobs of this priority and above, None: those of one user; `factor`: it is this part of the quota."""

    kind: str
    held: int
    needed: int
    most: int
    lowest: int | None
    factor: float | None


def limit_passed(
    layout: Layout, job: Job, needs: Mapping[str, int], mine: Mapping[str, int], of_class: int
) -> Limit | None:
    """The limit that the guaranteed job would pass with these GPUs (by leaf type) more; None: none. `mine`: what its
    user holds, `of_class`: what the jobs of the limited class hold."""
    rules = layout.team(job.vc).rules
    for kind, need in needs.items():
        cap, held = user_cap(rules, layout.owned_gpus(job.vc, kind)), mine.get(kind, 0)
        if cap is not None and held + need > cap:
            return Limit(kind, held, need, cap, None, rules.user_factor)
    held, needed = sum(mine.values()), sum(needs.values())
    if rules.user_gpus is not None and held + needed > rules.user_gpus:
        return Limit("", held, needed, rules.user_gpus, None, None)
    lowest, most = rules.class_priority, rules.class_gpus
    if lowest is None or most is None or job.priority < lowest or of_class + needed <= most:
        return None
    return Limit("", of_class, needed, most, lowest, None)
