"""Watches how long the runtime has not answered, and whether to report it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from nodes.agent.clock import Clock

AWAY_AFTER_S = 60.0
"""An Engine that is restarted or updated is back within half a minute; orders wait that long for it."""


class EngineWatch:
    """Counts from the first question without an answer, by the monotonic clock, also while that question still waits.
    An answer resets it. ``asked`` is for one thread, ``away`` for any."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._since: float | None = None
        self._why = ""

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Context of a question to the runtime. Any exception means no answer."""
        with self._lock:
            if self._since is None:
                self._since = self._clock.monotonic()
        try:
            yield
        except Exception as error:
            with self._lock:
                self._why = str(error) or type(error).__name__
            raise
        with self._lock:
            self._since, self._why = None, ""

    def away(self) -> str:
        """Why the node can carry out nothing; empty while the runtime answers, or has not been away for long."""
        with self._lock:
            if self._since is None or self._clock.monotonic() - self._since < AWAY_AFTER_S:
                return ""
            return self._why or "it gives no answer"
