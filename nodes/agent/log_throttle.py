"""Throttles a repeated log message: once, then every ten minutes while it stays."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

AGAIN_S = 600.0
_NUMBER = re.compile(r"[0-9]+")


class LogThrottle:
    """Of one thing that is tried again and again. Sentences that differ in their numbers alone (a time, an age) are one
    and the same."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._last = ""
        self._at = 0.0

    def new(self, why: str) -> bool:
        """Whether it is to be said now."""
        key, now = _NUMBER.sub("", why), self._monotonic()
        if key == self._last and now - self._at < AGAIN_S:
            return False
        self._last, self._at = key, now
        return True

    def over(self) -> bool:
        """It works again: the next failure is new. Whether anything was said before."""
        said, self._last = bool(self._last), ""
        return said
