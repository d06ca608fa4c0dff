"""Users' recent shares of their virtual cluster, as fair share counts them. Computed by a worker and kept in Redis,
never in rows; without it pages say that they do not know yet."""

from __future__ import annotations

import logging

import msgspec
from redis import RedisError

from nodes.protocol.decoding import unpacked
from portal.common.wake import redis_once

log = logging.getLogger(__name__)

KEY = "berth:portal:shares"
KEPT_S = 180

Shares = dict[str, dict[str, float]]
"""Share by virtual cluster and user name: 0 is nothing, 1 the whole quota all of the time."""


def shares_keep(found: Shares) -> None:
    """Store the shares. No effect while Redis is away."""
    try:
        redis_once().set(KEY, msgspec.msgpack.encode(found), ex=KEPT_S)
    except RedisError as error:
        log.warning("fair shares not kept, the next ones will be: %s", error)


def shares_read(vc: str) -> dict[str, float] | None:
    """Shares of one virtual cluster's users; None if none can be read."""
    try:
        kept = redis_once().get(KEY)
    except RedisError:
        return None
    return unpacked(kept, Shares).get(vc, {}) if isinstance(kept, bytes) else None
