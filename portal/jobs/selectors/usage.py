"""What was used of late, as fair share wants it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import F, FloatField, Sum, Value
from django.db.models.functions import Cast, Power

from portal.jobs.models import Usage

HALF_LIVES = 12
"""Use that is older weighs less than a four-thousandth and is left out."""


class PastUse(NamedTuple):
    """What a user (by name) took of a resource in a virtual cluster (by row id), all of it put into one hour."""

    vc_id: int
    user: str
    resource: str
    hour: int
    amount: int


def usage_folded(*, now: datetime, half_life: timedelta) -> list[PastUse]:
    """One row for each user and resource: earlier hours are folded into the present one by the half-life, which weighs
    the same. One query."""
    present, life = int(now.timestamp()) // 3600, half_life / timedelta(hours=1)
    age = Value(present) - F("hour")
    weighed = Cast("amount", FloatField()) * Power(Value(0.5), Cast(age, FloatField()) / Value(life))
    rows = (
        Usage.objects.filter(hour__gt=present - HALF_LIVES * life)
        .values_list("vc", "user__username", "resource")
        .annotate(total=Sum(weighed))
        .order_by("vc", "user__username", "resource")
    )
    return [PastUse(vc, user, resource, present, round(total)) for vc, user, resource, total in rows]
