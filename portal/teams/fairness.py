"""How much of its virtual cluster each user had of late, as fair share counts it. Worked out on a worker, kept in Redis
and never in rows; without it pages say that they do not know yet."""

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
"""By the virtual cluster's name and the user's: 0 is nothing, 1 all of the quota all of the time."""


def shares_keep(found: Shares) -> None:
    """Keep the shares. Without effect while Redis is away."""
    try:
        redis_once().set(KEY, msgspec.msgpack.encode(found), ex=KEPT_S)
    except RedisError as error:
        log.warning("fair shares not kept, the next ones will be: %s", error)


def shares_read(vc: str) -> dict[str, float] | None:
    """Those of one virtual cluster's users; None when there are none to be read."""
    try:
        kept = redis_once().get(KEY)
    except RedisError:
        return None
    return unpacked(kept, Shares).get(vc, {}) if isinstance(kept, bytes) else None
