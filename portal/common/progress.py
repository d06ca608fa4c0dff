"""How far a long request has come, for the page that waits for it. Kept in Redis for minutes; without it pages show
no numbers, and nothing else changes."""

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
"""A step in so many is told, and the last one."""


class Progress(NamedTuple):
    """So many steps of so many."""

    done: int
    total: int


Steps = Callable[[int, int], None]
"""Called after each step: how many are done, of how many."""


def progress_steps(key: str) -> Steps:
    """Tells under this key."""

    def told(done: int, total: int) -> None:
        if done % max(1, total // EVERY) == 0 or done == total:
            with suppress(RedisError):
                redis_once().set(_place(key), msgspec.msgpack.encode(Progress(done, total)), ex=KEPT_S)

    return told


def progress_read(key: str) -> Progress | None:
    """What was told last under this key; None where nothing is known."""
    try:
        kept = redis_once().get(_place(key))
    except RedisError:
        return None
    return unpacked(kept, Progress) if isinstance(kept, bytes) else None


def _place(key: str) -> str:
    return f"berth:portal:progress:{key}"
