"""A time scale, from now on, for the likely starts on a page of the queue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from portal.queue.outlook import StartRange

STEPS = [timedelta(minutes=minutes) for minutes in (10, 30, 60, 180, 360, 720, 1440, 4320, 10080, 20160, 43200)]
"""Readable lengths for a scale."""
LEAST = 1.5
"""The smallest bar's width in percent of the scale, so that it stays visible."""


class Bar(NamedTuple):
    """A bar from p50 to p90, in percent of the scale."""

    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Scale:
    """A time scale of ``reach`` from ``since`` on."""

    since: datetime
    reach: timedelta

    @classmethod
    def over(cls, starts: Iterable[StartRange], now: datetime) -> Scale:
        """The shortest scale that holds all of them, or the longest."""
        last = max(one.p90_at for one in starts) - now
        return cls(now, next((step for step in STEPS if step >= last), STEPS[-1]))

    def bar(self, start: StartRange) -> Bar:
        """The bar of this start."""
        low, high = (self._percent(at) for at in (start.p50_at, start.p90_at))
        low = min(low, 100 - LEAST)
        return Bar(round(low, 2), round(max(LEAST, high - low), 2))

    def _percent(self, at: datetime) -> float:
        return min(100.0, max(0.0, 100 * ((at - self.since) / self.reach)))
