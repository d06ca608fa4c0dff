"""Archives fast-growing logs on their hints, in a thread of the workers that take the ``control`` queue.

The sweep alone would be correct, but too slow: a node stops sending at 1 MB beyond the archive.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from django.db import close_old_connections
from redis import Redis

from nodes.protocol.names import WAKE_CHANNEL
from portal.common.control_threads import ControlStep, ControlThread
from portal.logs.archiver import WORTHWHILE, archiver

HINT = re.compile(rb"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}) ([0-9]{1,18})")
MOST_LOGS = 10_000
RETRY_S = 2.0
LOOK_UP_S = 0.2
"""How often the watch checks whether to stop, if no hint comes."""


class ArchiveWatch(ControlThread):
    """Calls ``step`` for a log when hints say that it grew by a worthwhile piece; the sweep finds what is missed."""

    name = "archive-watch"

    def __init__(self, redis: Redis, step: Callable[[str], bool]) -> None:
        super().__init__(RETRY_S)
        self._redis, self._step = redis, step
        self._seen: dict[str, int] = {}

    def turn(self) -> None:
        hints: Any = self._redis.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
        with hints:
            hints.subscribe(WAKE_CHANNEL)
            while not self.closing.is_set():
                message = hints.get_message(timeout=LOOK_UP_S)
                if message is not None:
                    self._hint(message["data"])

    def _hint(self, data: bytes) -> None:
        match = HINT.fullmatch(data)
        if match is None:
            return
        attempt, end = match[1].decode(), int(match[2])
        seen = self._seen.setdefault(attempt, end)
        if seen <= end < seen + WORTHWHILE:
            return
        if len(self._seen) > MOST_LOGS:
            self._seen.clear()
        self._seen[attempt] = end
        while self._step(attempt):
            continue
        close_old_connections()


class WatchStep(ControlStep):
    def thread(self) -> ControlThread:
        one = archiver()
        return ArchiveWatch(one.redis, one.step_alone)
