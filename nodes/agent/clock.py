"""Clocks as arguments: code that needs the time is given a ``Clock``."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Protocol


class Clock(Protocol):
    """Two clocks: wall time, which may jump, and monotonic time."""

    def now_ms(self) -> int:
        """Unix time in ms; may jump."""

    def monotonic(self) -> float:
        """Seconds since the machine started, with those in which it slept; equal for all processes, never backwards."""

    def boot(self) -> str:
        """The kernel's id of that start."""


def portal_skew_s(date: str | None, *, now_ms: int) -> float | None:
    """Seconds by which this clock is ahead of an HTTP ``Date`` header; negative: behind. None where the header has no
    time. Its resolution is one second."""
    try:
        portal_time = parsedate_to_datetime(date or "")
    except ValueError:
        return None
    return now_ms / 1000 - portal_time.timestamp() - 0.5


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def boot(self) -> str:
        return machine_boot()


def machine_boot() -> str:
    """The kernel's id of the machine's start."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
