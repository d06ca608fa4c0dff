"""The order of a virtual cluster's users, and why."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count

from portal.teams.fairness import shares_read
from portal.teams.models import VirtualCluster


@dataclass(frozen=True, slots=True)
class UserShare:
    """A user's recent share of the quota, None if not known (yet), and how many jobs run and wait.

    ``bar``: the same scaled to a bar of the whole quota, or of the largest share if that is more.
    """

    user: str
    share: float | None
    running: int
    waiting: int
    bar: float = 0.0

    @property
    def percent(self) -> float | None:
        """The share in percent, to one decimal."""
        return None if self.share is None else round(100 * self.share, 1)


def user_shares(*, vc: VirtualCluster) -> list[UserShare]:
    """Users with a share or a live job, smallest share first, as equal jobs of theirs take turns. One query."""
    jobs = vc.jobs.filter(state__in=["waiting", "starting", "running"]).order_by()
    counts: dict[tuple[str, bool], int] = {}
    for user, state, number in jobs.values_list("user__username", "state").annotate(number=Count("pk")):
        key = (user, state == "waiting")
        counts[key] = counts.get(key, 0) + number
    shares = shares_read(vc.name)
    users = {user for user, _ in counts} | {user for user, share in (shares or {}).items() if share >= 0.0005}
    most = max([1.0, *(shares or {}).values()])
    rows = [
        UserShare(
            user=user,
            share=None if shares is None else shares.get(user, 0.0),
            running=counts.get((user, False), 0),
            waiting=counts.get((user, True), 0),
            bar=(shares or {}).get(user, 0.0) / most,
        )
        for user in users
    ]
    return sorted(rows, key=lambda row: (row.share or 0.0, row.user))
