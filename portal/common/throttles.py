"""Rate limits, counted in Redis for all web processes."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from ipaddress import IPv6Address, ip_address, ip_network
from typing import NamedTuple

from django.core.cache.backends.locmem import LocMemCache
from redis.exceptions import RedisError

from portal.common.errors import RateLimited
from portal.common.wake import redis_once

# While Redis is down each web process counts for itself: people can still sign in, guessing stays slow.
_own = LocMemCache("throttles", {})


def by_address(address: str) -> str:
    """The key to count an address under: for IPv6 its /64 network, since each machine has all addresses of its own; an
    IPv4-mapped address counts as IPv4. What is no address counts as it is."""
    with suppress(ValueError):
        found = ip_address(address.partition("%")[0])
        mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
        if isinstance(found, IPv6Address) and mapped is None:
            return f"address:{ip_network((found, 64), strict=False)}"
        return f"address:{mapped or found}"
    return f"address:{address}"


class Rate(NamedTuple):
    """``times`` per window of ``seconds``."""

    times: int
    seconds: int


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Fixed-window rate limit per key (a burst across a window's border can reach twice the count).

    ``name`` separates the counts of different limits.
    """

    name: str
    rate: Rate

    def take(self, key: str, *, now: datetime) -> None:
        """Counts one use. Raises RateLimited, with the seconds to wait, if the window's count is used up."""
        place = self._place(key, now)
        try:
            taken = self._count(place)
        except RedisError:
            taken = self._count_here(place)
        if taken > self.rate.times:
            raise RateLimited(self.rate.seconds - int(now.timestamp()) % self.rate.seconds)

    def give_back(self, key: str, *, now: datetime) -> None:
        """Uncounts one that was counted a moment ago."""
        place = self._place(key, now)
        try:
            asked = redis_once().pipeline(transaction=True)
            asked.decr(place)
            asked.expire(place, self.rate.seconds)
            asked.execute()
        except RedisError:
            _own.set(place, max(0, _own.get(place, 0) - 1), timeout=self.rate.seconds)

    def clear(self, key: str, *, now: datetime) -> None:
        """Resets the key's count in this window."""
        place = self._place(key, now)
        _own.delete(place)
        try:
            redis_once().delete(place)
        except RedisError:
            return

    def _place(self, key: str, now: datetime) -> str:
        digest = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:32]
        return f"berth:portal:rate:{self.name}:{digest}:{int(now.timestamp()) // self.rate.seconds}"

    def _count(self, place: str) -> int:
        asked = redis_once().pipeline(transaction=True)
        asked.incr(place)
        asked.expire(place, self.rate.seconds)
        return int(asked.execute()[0])

    def _count_here(self, place: str) -> int:
        _own.add(place, 0, timeout=self.rate.seconds)
        try:
            return int(_own.incr(place))
        except ValueError:  # expired between the two calls: a new window has begun
            return 1
