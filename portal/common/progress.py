"""Progress of a long request, for the page that waits for it. Kept in Redis for minutes; without Redis pages show no
numbers, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import msgspec
from redis import RedisError

from nodes.protocol.decoding import unpacked
from portal.common.wake import redis_once

KEPT_S = 600
EVERY = 20
"""About so many reports in all, one of them for the last step."""


class Progress(NamedTuple):
    """Steps done, of a total."""

    done: int
    total: int


Steps = Callable[[int, int], None]
"""Callback after each step: how many are done, of how many."""


def progress_steps(key: str) -> Steps:
    """A callback that records progress under this key."""

    def told(done: int, total: int) -> None:
        if done % max(1, total // EVERY) == 0 or done == total:
            with suppress(RedisError):
                redis_once().set(_place(key), msgspec.msgpack.encode(Progress(done, total)), ex=KEPT_S)

    return told


def progress_read(key: str) -> Progress | None:
    """The progress last recorded under this key; None if unknown."""
    try:
        kept = redis_once().get(_place(key))
    except RedisError:
        return None
    return unpacked(kept, Progress) if isinstance(kept, bytes) else None


def _place(key: str) -> str:
    return f"berth:portal:progress:{key}"
