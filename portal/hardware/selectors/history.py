"""GPU counts by state, over time."""

from __future__ import annotations

from datetime import datetime

from django.db.models import QuerySet, Sum

from portal.accounts.models import User
from portal.accounts.rights import Action, allowed_everywhere
from portal.hardware.models import GpuCount

PLACES = ("held", "lent", "free", "out", "sick")


def gpu_counts(*, user: User) -> QuerySet[GpuCount]:
    """The recorded counts that the user may see."""
    rows = GpuCount.objects.select_related("sku")
    return rows if allowed_everywhere(user, Action.NODE_READ) else rows.none()


def gpu_counts_summed(*, user: User, since: datetime, most: int = 300) -> list[tuple[datetime, dict[str, int]]]:
    """Counts of all SKUs together, oldest first; thinned out above ``most`` moments."""
    rows = gpu_counts(user=user).filter(at__gte=since).order_by("at").values_list("at")
    summed = rows.annotate(*(Sum(place) for place in PLACES))
    found = [(at, dict(zip(PLACES, counts, strict=True))) for at, *counts in summed]
    return found[:: -(-len(found) // most) or 1]
