"""How far a long request has come, for the page that waits for it. Kept in the cache for minutes; without it pages show
no numbers, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from django.core.cache import cache
from redis import RedisError

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
                cache.set(f"berth:progress:{key}", tuple(Progress(done, total)), KEPT_S)

    return told


def progress_read(key: str) -> Progress | None:
    """What was told last under this key; None where nothing is known."""
    try:
        kept = cache.get(f"berth:progress:{key}")
    except RedisError:
        return None
    return Progress(*kept) if kept else None
