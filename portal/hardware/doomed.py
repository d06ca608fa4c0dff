"""Doomed cells: quota that would have to be bound to bad hardware if it were wanted now. Found by a worker and kept in
Redis, not in rows; without it pages omit them."""

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
    """Cells of one type that a virtual cluster owns and could not get now."""

    chain: str
    cell_type: str
    cells: int


def doomed_keep(
    found: Mapping[str, list[DoomedCells]], *, closed: Mapping[str, list[DoomedCells]] | None = None
) -> None:
    """Store the doomed cells by virtual cluster; ``closed``: cells unavailable besides these because nodes are drained
    or cordoned. No effect while Redis is away."""
    try:
        redis_once().set(KEY, msgspec.msgpack.encode(dict(found)), ex=KEPT_S)
        redis_once().set(CLOSED_KEY, msgspec.msgpack.encode(dict(closed or {})), ex=KEPT_S)
    except RedisError as error:
        log.warning("doomed cells not kept, the next ones will be: %s", error)


def doomed_read(vc: str) -> list[DoomedCells]:
    """Doomed cells of one virtual cluster; empty if none can be read."""
    return (doomed_everywhere() or {}).get(vc, [])


def doomed_everywhere() -> dict[str, list[DoomedCells]] | None:
    """Doomed cells of all virtual clusters that have some; None without a recent result."""
    return _read(KEY)


def closed_everywhere() -> dict[str, list[DoomedCells]] | None:
    """Quota cells closed with their nodes, by virtual cluster; None without a recent result."""
    return _read(CLOSED_KEY)


def _read(key: str) -> dict[str, list[DoomedCells]] | None:
    try:
        kept = redis_once().get(key)
    except RedisError:
        return None
    return unpacked(kept, dict[str, list[DoomedCells]]) if isinstance(kept, bytes) else None
