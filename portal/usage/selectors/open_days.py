"""Days not summed up yet, above all today: computed once a minute by a worker for all readers, so that no page scans a
day's allocations. Kept in Redis and never in rows, since they change every minute; without it, each reader computes
them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import astuple
from datetime import date, datetime, timedelta
from functools import lru_cache

import msgspec
from django.conf import settings
from redis import RedisError

from nodes.protocol.decoding import unpacked
from portal.common.wake import redis_once
from portal.usage.selectors.gpu_hours import UsageKey, UsageSums, usage_of_days

log = logging.getLogger(__name__)

KEY = "berth:portal:usage-open"
Sums = Mapping[UsageKey, UsageSums]


class _Line(msgspec.Struct, frozen=True, array_like=True):
    """Key and sums of one entry."""

    of: UsageKey
    ms: tuple[int, int, int, int, int, int, int]


class _Written(msgspec.Struct, frozen=True, array_like=True):
    """The value in Redis."""

    first: date
    last: date
    until: datetime
    lines: list[_Line]


class _Open(msgspec.Struct, frozen=True):
    """The sums of these days (both included) at a point in time."""

    first: date
    last: date
    until: datetime
    sums: Sums

    def tells(self, first: date, last: date, now: datetime, age: timedelta) -> bool:
        """Whether it covers these days and is recent enough."""
        return self.first <= first and last <= self.last and timedelta() <= now - self.until < age


def usage_of_open_days(*, first: date, last: date, now: datetime) -> tuple[datetime, Sums]:
    """GPU time on these days and perhaps others, at most ``USAGE_KEPT_S`` old, and its time."""
    most = timedelta(seconds=settings.USAGE_KEPT_S)
    if not most:
        return now, usage_of_days(first=first, last=last, now=now)
    kept = _read()
    if kept is None or not kept.tells(first, last, now, most):
        kept = usage_open_keep(first=first, last=last, now=now)
    return kept.until, kept.sums


def usage_open_keep(*, first: date, last: date, now: datetime) -> _Open:
    """Computes these days and stores them for readers; Redis may be away."""
    found = _Open(first, last, now, usage_of_days(first=first, last=last, now=now))
    lines = [_Line(key, astuple(one)) for key, one in found.sums.items()]
    try:
        written = msgspec.msgpack.encode(_Written(first, last, now, lines))
        redis_once().set(KEY, written, ex=settings.USAGE_KEPT_S)
    except RedisError as error:
        log.warning("usage of days that are not over is not kept: %s", error)
    return found


def _read() -> _Open | None:
    """The sums stored last; None if none can be read."""
    try:
        written = redis_once().get(KEY)
        return _open(written) if isinstance(written, bytes) else None
    except (RedisError, msgspec.MsgspecError) as error:
        log.warning("usage of days that are not over is not read: %s", error)
        return None


@lru_cache(maxsize=1)
def _open(written: bytes) -> _Open:
    """Cached: it lasts a minute, and many read it."""
    found = unpacked(written, _Written)
    sums = {line.of: UsageSums(*line.ms) for line in found.lines}
    return _Open(found.first, found.last, found.until, sums)
