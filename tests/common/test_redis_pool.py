"""Connections of Django's cache to Redis."""

from __future__ import annotations

from contextvars import Context

from django.core.cache import cache
from redis import Redis

from tests.support.redis_server import RedisServer


def test_requests_share_connections_though_each_has_a_cache_of_its_own(redis_server: RedisServer) -> None:
    cache.set("first", 1)
    with Redis.from_url(redis_server.url) as watching:
        before = watching.info("stats")["total_connections_received"]
        seen = {Context().run(_asked) for _ in range(20)}
        after = watching.info("stats")["total_connections_received"]
    assert len(seen) == 20, "each context has a cache of its own"
    assert after == before


def _asked() -> int:
    cache.set("again", 2)
    kept.append(cache._connections[cache._alias])  # type: ignore[attr-defined]
    return id(kept[-1])


kept: list[object] = []
"""Held, so that none takes the place of another in memory."""
