"""The days that are not summed up yet, today above all: worked out once a minute by a worker for all who read, so that
no page goes through a day's allocations. Kept in Redis and never in rows, for they change with every minute; without it
whoever reads works them out."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import astuple
from datetime import date, datetime, timedelta

import msgspec
from django.conf import settings
from redis import RedisError

from nodes.protocol.decoding import unpacked
from portal.common.wake import redis_once
from portal.usage.selectors.gpu_hours import UsageKey, UsageSums, usage_of_days

log = logging.getLogger(__name__)

KEY = "berth:portal:usage-open"
RENEWED = timedelta(seconds=60)
"""So often a worker works them out."""
Sums = Mapping[UsageKey, UsageSums]


class _Line(msgspec.Struct, frozen=True, array_like=True):
    """Of whom and how much."""

    of: UsageKey
    ms: tuple[int, int, int, int, int, int]


class _Written(msgspec.Struct, frozen=True, array_like=True):
    """As it lies in Redis."""

    first: date
    last: date
    until: datetime
    lines: list[_Line]


class _Open(msgspec.Struct, frozen=True):
    """These days (both included) as they were at a moment."""

    first: date
    last: date
    until: datetime
    sums: Sums

    def tells(self, first: date, last: date, now: datetime, age: timedelta) -> bool:
        """Whether it has these days and is no older."""
        return self.first <= first and last <= self.last and timedelta() <= now - self.until < age


_last: _Open | None = None


def usage_of_open_days(*, first: date, last: date, now: datetime) -> tuple[datetime, Sums]:
    """What was held and used on these days and perhaps on others, as it was ``USAGE_KEPT_S`` ago at most, and when that
    was."""
    global _last
    most = timedelta(seconds=settings.USAGE_KEPT_S)
    if not most:
        return now, usage_of_days(first=first, last=last, now=now)
    kept = _last
    if kept is None or not kept.tells(first, last, now, min(most, RENEWED)):
        kept = _read()
        if kept is None or not kept.tells(first, last, now, most):
            kept = usage_open_keep(first=first, last=last, now=now)
        _last = kept
    return kept.until, kept.sums


def usage_open_keep(*, first: date, last: date, now: datetime) -> _Open:
    """Work these days out and keep them for whoever reads; Redis may be away."""
    found = _Open(first, last, now, usage_of_days(first=first, last=last, now=now))
    lines = [_Line(key, astuple(one)) for key, one in found.sums.items()]
    try:
        written = msgspec.msgpack.encode(_Written(first, last, now, lines))
        redis_once().set(KEY, written, ex=settings.USAGE_KEPT_S)
    except RedisError as error:
        log.warning("usage of days that are not over is not kept: %s", error)
    return found


def _read() -> _Open | None:
    """What was kept last; None where there is nothing to be read."""
    try:
        written = redis_once().get(KEY)
        if not isinstance(written, bytes):
            return None
        found = unpacked(written, _Written)
    except (RedisError, msgspec.MsgspecError) as error:
        log.warning("usage of days that are not over is not read: %s", error)
        return None
    sums = {line.of: UsageSums(*line.ms) for line in found.lines}
    return _Open(found.first, found.last, found.until, sums)
