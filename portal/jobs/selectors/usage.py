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


def past_days(moment: datetime) -> int:
    """The hour (since 1970) at which yesterday began (UTC); usage before it seldom changes."""
    return (int(moment.timestamp()) // 86_400 - 1) * 24


class UsageReader:
    """Reads recent usage. Keeps the weighted sum of the days before yesterday, so that each reading is of two days."""

    def __init__(self) -> None:
        self._past: tuple[_Key | None, dict[Account, float]] = None, {}

    def folded(self, *, now: datetime, half_life: timedelta) -> list[PastUse]:
        """Usage by user and resource, one row each: earlier hours are folded into the present one by the half-life,
        which weighs the same. Two queries, plus one if usage was added to past days since the last reading."""
        present, days, life = int(now.timestamp()) // 3600, past_days(now), half_life / timedelta(hours=1)
        sums: dict[Account, float] = defaultdict(float, _folded(days, LATEST, present, life))
        faded = 0.5 ** ((present - days) / life)
        for account, amount in self._before(days, life).items():
            sums[account] += amount * faded
        return [PastUse(vc, user, what, present, round(sums[vc, user, what])) for vc, user, what in sorted(sums)]

    def _before(self, days: int, life: float) -> dict[Account, float]:
        mark, last = _MARK.first(), self._past
        key = _Key(mark.epoch, mark.version, days, life) if mark else None
        if key is None or last[0] != key:
            last = self._past = key, _folded(int(days - HALF_LIVES * life) + 1, days, days, life)
        return last[1]


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
