"""Archives logs that grow fast as their hints come, in a thread of the workers that take the ``control`` queue.

The sweep alone would be right, but not fast enough: a node stops sending at 1 MB beyond the archive.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from typing import Any

from celery import bootsteps
from django.db import close_old_connections
from redis import Redis

from nodes.protocol import WAKE_CHANNEL
from portal.jobs.logs.archiver import WORTHWHILE, archiver

QUEUE = "control"
HINT = re.compile(rb"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}) ([0-9]{1,18})")
MOST_LOGS = 10_000
RETRY_S = 2.0
LOOK_UP_S = 0.2
"""How often the watch looks up whether it shall end, where no hint comes."""

log = logging.getLogger(__name__)


class ArchiveWatch:
    """Calls ``step`` for a log when its hints say that it grew by a worthwhile piece."""

    def __init__(self, redis: Redis, step: Callable[[str], bool]) -> None:
        self._redis, self._step = redis, step
        self._seen: dict[str, int] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="archive-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Returns when the step at hand is done, at most a few seconds later."""
        self._closing.set()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._listen()
            except Exception as error:  # whatever is wrong now (Redis, database, disk), the sweep finds the rest
                log.warning("log hints not followed, again in %s s: %r", RETRY_S, error)
                self._closing.wait(RETRY_S)
            finally:
                close_old_connections()

    def _listen(self) -> None:
        hints: Any = self._redis.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
        with hints:
            hints.subscribe(WAKE_CHANNEL)
            while not self._closing.is_set():
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


class WatchStep(bootsteps.StartStopStep):
    """Runs the watch in every worker that takes the ``control`` queue."""

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self._watch: ArchiveWatch | None = None

    def include_if(self, parent: Any) -> bool:
        return QUEUE in parent.app.amqp.queues.consume_from

    def start(self, parent: Any) -> None:
        one = archiver()
        self._watch = ArchiveWatch(one.redis, one.step_alone)
        self._watch.start()

    def stop(self, parent: Any) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
