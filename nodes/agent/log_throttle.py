"""Throttles a repeated log message: once, then every ten minutes while it stays."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

AGAIN_S = 600.0
_NUMBER = re.compile(r"[0-9]+")


class LogThrottle:
    """Throttle for one thing that is retried again and again. Messages that differ only in numbers (a time, an age)
    count as the same."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._last = ""
        self._at = 0.0

    def new(self, why: str) -> bool:
        """Whether to log the message now."""
        key, now = _NUMBER.sub("", why), self._monotonic()
        if key == self._last and now - self._at < AGAIN_S:
            return False
        self._last, self._at = key, now
        return True

    def over(self) -> bool:
        """Resets after a success: the next failure is new. Whether anything was logged before."""
        logged, self._last = bool(self._last), ""
        return logged
