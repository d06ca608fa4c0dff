"""Recent usage for fair share."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db.models import F, FloatField, QuerySet, Sum, Value
from django.db.models.functions import Cast, Power

from portal.common.prepared import Prepared, Slot
from portal.jobs.models import Usage, UsageMark

LATEST = 2**31 - 1
HALF_LIVES = 12
"""Older usage weighs less than a four-thousandth and is left out."""


class PastUse(NamedTuple):
    """What a user (by name) took of a resource in a virtual cluster (by row id), folded into one hour."""

    vc_id: int
    user: str
    resource: str
    hour: int
    amount: int


class _Key(NamedTuple):
    epoch: UUID
    version: int
    days: int
    life: float


Account = tuple[int, str, str]
_kept: tuple[_Key, dict[Account, float]] | None = None
"""The weighted sum of days before yesterday, so that each cycle reads two days only."""


def past_days(moment: datetime) -> int:
    """The hour (since 1970) at which yesterday began (UTC); usage before it seldom changes."""
    return (int(moment.timestamp()) // 86_400 - 1) * 24


def usage_folded(*, now: datetime, half_life: timedelta) -> list[PastUse]:
    """Usage by user and resource, one row each: earlier hours are folded into the present one by the half-life, which
    weighs the same. Two queries, plus one if usage was added to past days since this process last read it."""
    present, days, life = int(now.timestamp()) // 3600, past_days(now), half_life / timedelta(hours=1)
    sums: dict[Account, float] = defaultdict(float, _folded(days, LATEST, present, life))
    faded = 0.5 ** ((present - days) / life)
    for account, amount in _past(days, life).items():
        sums[account] += amount * faded
    return [PastUse(vc, user, what, present, round(sums[vc, user, what])) for vc, user, what in sorted(sums)]


def _past(days: int, life: float) -> dict[Account, float]:
    global _kept
    mark = _MARK.first()
    key = _Key(mark.epoch, mark.version, days, life) if mark else None
    if _kept is not None and _kept[0] == key:
        return _kept[1]
    found = _folded(int(days - HALF_LIVES * life) + 1, days, days, life)
    if key is not None:
        _kept = key, found
    return found


def _folded(since: int, before: int, into: int, life: float) -> dict[Account, float]:
    rows = _WEIGHED(since=since, before=before, into=into, life=life)
    return {(vc, user, what): total for vc, user, what, total in rows}


def _weighed() -> QuerySet[Usage, tuple[int, str, str, float]]:
    hours = Usage.objects.filter(hour__gte=Slot("since", int), hour__lt=Slot("before", int))
    age = Cast(Slot("into", int) - F("hour"), FloatField()) / Slot("life", float)
    weighed = Cast("amount", FloatField()) * Power(Value(0.5), age)
    return hours.order_by().values_list("vc", "user__username", "resource").annotate(total=Sum(weighed))


_MARK = Prepared(lambda: UsageMark.objects.filter(id=1))
_WEIGHED = Prepared(_weighed)
