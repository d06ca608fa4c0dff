"""Time as an argument: whoever needs it is given a ``Clock``."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks: one that people and other machines understand, one that never jumps."""

    def now_ms(self) -> int:
        """Unix time in ms; may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds since the machine started; equal for all processes, never backwards."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()
