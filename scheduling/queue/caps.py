"""Limits on what one user, or jobs of a high priority, may hold together in a virtual cluster, and what they hold."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from scheduling.cells.cell_index import CellIndex
from scheduling.model.description import Rules
from scheduling.model.job import Job
from scheduling.model.snapshot import Claim, Running
from scheduling.queue.dominant_share import user_cap


def capped(rules: Rules) -> bool:
    """Whether there is any limit of what one user, or the jobs of a high class, hold together."""
    return not (rules.user_factor is None and rules.user_gpus is None and rules.class_gpus is None)


class LimitUsage:
    """GPUs that guaranteed jobs have, on loan too, or claim. Counted at the first question; from then on every change
    of `running` or `claims` is told."""

    def __init__(
        self,
        layout: CellIndex,
        running: Mapping[str, Running],
        waiting: Mapping[str, Job],
        claims: Mapping[str, Mapping[str, Claim]],
    ) -> None:
        self._types = layout.cluster.leaf_types
        self._lowest = {
            name: vc.rules.class_priority for name, vc in layout.virtual_clusters.items() if capped(vc.rules)
        }
        self._running, self._waiting, self._claims = running, waiting, claims
        self._counted = False
        self._users: dict[tuple[str, str], dict[str, int]] = {}
        self._classes: dict[str, int] = {}

    def of_user(self, vc: str, user: str) -> Mapping[str, int]:
        """What the user's jobs in a virtual cluster with a limit hold there, by leaf type."""
        self._count()
        return self._users.get((vc, user), {})

    def of_class(self, vc: str) -> int:
        """What the jobs of the class that the virtual cluster limits hold there, of all leaf types."""
        self._count()
        return self._classes.get(vc, 0)

    def change(self, job: Job, leaves: Iterable[str], sign: int) -> None:
        """The job holds or claims these leaves (`sign` 1), or does so no more (-1)."""
        if self._counted:
            self._add(job, leaves, sign)

    def gone(self, name: str, leaves: Iterable[str]) -> None:
        """The waiting job of this name claims these leaves no more."""
        job = self._waiting.get(name)
        if job is not None:
            self.change(job, leaves, -1)

    def _count(self) -> None:
        if self._counted:
            return
        self._counted = True
        for one in self._running.values():
            if one.job.vc in self._lowest:
                self._add(one.job, [use.leaf for task in one.tasks for use in task.placement.leaves], 1)
        for name, claims in self._claims.items():
            if name in self._waiting:
                self._add(self._waiting[name], claims, 1)

    def _add(self, job: Job, leaves: Iterable[str], sign: int) -> None:
        if job.vc not in self._lowest or job.opportunistic:
            return
        mine, lowest = self._users.setdefault((job.vc, job.user), {}), self._lowest[job.vc]
        for leaf in leaves:
            kind = self._types.get(leaf)
            if kind is not None:
                mine[kind] = mine.get(kind, 0) + sign
                if lowest is not None and job.priority >= lowest:
                    self._classes[job.vc] = self._classes.get(job.vc, 0) + sign


class Limit(NamedTuple):
    """A limit that would be exceeded. `kind`: the leaf type that it counts, empty for all GPUs together; `lowest`: it
    counts the jobs of this priority and above, None: those of one user; `factor`: it is this part of the quota."""

    kind: str
    used: int
    needed: int
    most: int
    lowest: int | None
    factor: float | None


def limit_exceeded(
    layout: CellIndex, job: Job, needs: Mapping[str, int], mine: Mapping[str, int], of_class: int
) -> Limit | None:
    """The limit that the guaranteed job would exceed with these GPUs (by leaf type) more; None: none. `mine`: what its
    user holds, `of_class`: what the jobs of the limited class hold."""
    rules = layout.team(job.vc).rules
    for kind, need in needs.items():
        cap, used = user_cap(rules, layout.owned_gpus(job.vc, kind)), mine.get(kind, 0)
        if cap is not None and used + need > cap:
            return Limit(kind, used, need, cap, None, rules.user_factor)
    used, needed = sum(mine.values()), sum(needs.values())
    if rules.user_gpus is not None and used + needed > rules.user_gpus:
        return Limit("", used, needed, rules.user_gpus, None, None)
    lowest, most = rules.class_priority, rules.class_gpus
    if lowest is None or most is None or job.priority < lowest or of_class + needed <= most:
        return None
    return Limit("", of_class, needed, most, lowest, None)
