"""Doomed cells: quota that would have to sit on bad hardware if it were wanted now. Found on a worker, kept in Redis
and never in rows; without it pages say nothing of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgspec
from redis import RedisError

from nodes.protocol.decoding import unpacked
from portal.common.wake import redis_once

log = logging.getLogger(__name__)

KEY = "berth:portal:doomed"
CLOSED_KEY = "berth:portal:doomed:closed"
KEPT_S = 60


class DoomedCells(msgspec.Struct, frozen=True):
    """``cells`` cells of a type that a virtual cluster owns and could not get now."""

    chain: str
    cell_type: str
    cells: int


def doomed_keep(
    found: Mapping[str, list[DoomedCells]], *, closed: Mapping[str, list[DoomedCells]] | None = None
) -> None:
    """Keep the doomed cells by the virtual cluster's name; ``closed``: those that could not be had beside them, since
    nodes are drained or cordoned. Without effect while Redis is away."""
    try:
        redis_once().set(KEY, msgspec.msgpack.encode(dict(found)), ex=KEPT_S)
        redis_once().set(CLOSED_KEY, msgspec.msgpack.encode(dict(closed or {})), ex=KEPT_S)
    except RedisError as error:
        log.warning("doomed cells not kept, the next ones will be: %s", error)


def doomed_read(vc: str) -> list[DoomedCells]:
    """Those of one virtual cluster; none when there are none to be read."""
    return (doomed_everywhere() or {}).get(vc, [])


def doomed_everywhere() -> dict[str, list[DoomedCells]] | None:
    """Those of all virtual clusters that have some; None when nobody found out of late."""
    return _read(KEY)


def closed_everywhere() -> dict[str, list[DoomedCells]] | None:
    """What of all virtual clusters' quotas is closed with nodes; None when nobody found out of late."""
    return _read(CLOSED_KEY)


def _read(key: str) -> dict[str, list[DoomedCells]] | None:
    try:
        kept = redis_once().get(key)
    except RedisError:
        return None
    return unpacked(kept, dict[str, list[DoomedCells]]) if isinstance(kept, bytes) else None
