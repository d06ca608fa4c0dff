"""Limits on how often something may be done, counted in the cache that all web processes share."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.core.cache import cache
from django.core.cache.backends.base import BaseCache
from django.core.cache.backends.locmem import LocMemCache
from redis.exceptions import RedisError

from portal.common.errors import RateLimited

# While Redis is away each web process counts for itself: people can still sign in, guessing stays slow.
_own = LocMemCache("throttles", {})


class Rate(NamedTuple):
    """``times`` in each window of ``seconds``."""

    times: int
    seconds: int


@dataclass(frozen=True, slots=True)
class RateLimit:
    """So many times per key in fixed windows (the oldest of rate limiters; a burst over a border is twice the count).

    ``name`` keeps the counts of different limits apart.
    """

    name: str
    rate: Rate

    def take(self, key: str, *, now: datetime) -> None:
        """Counts one; raises RateLimited with the seconds to wait when the window's count is used up."""
        place = self._place(key, now)
        try:
            taken = self._count(cache, place)
        except RedisError:
            taken = self._count(_own, place)
        if taken > self.rate.times:
            raise RateLimited(self.rate.seconds - int(now.timestamp()) % self.rate.seconds)

    def clear(self, key: str, *, now: datetime) -> None:
        """Forgets what the key has used of this window."""
        place = self._place(key, now)
        _own.delete(place)
        try:
            cache.delete(place)
        except RedisError:
            return

    def _place(self, key: str, now: datetime) -> str:
        digest = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:32]
        return f"rate:{self.name}:{digest}:{int(now.timestamp()) // self.rate.seconds}"

    def _count(self, store: BaseCache, place: str) -> int:
        store.add(place, 0, timeout=self.rate.seconds)
        try:
            return int(store.incr(place))
        except ValueError:  # expired between the two calls: a new window has begun
            return 1
