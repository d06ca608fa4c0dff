"""The likely starts of a page of the queue on one scale of time, from now on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from portal.queue.outlook import StartRange

STEPS = [timedelta(minutes=minutes) for minutes in (10, 30, 60, 180, 360, 720, 1440, 4320, 10080, 20160, 43200)]
"""How far a scale may reach: lengths that one can read."""
LEAST = 1.5
"""Percent of the scale: so wide is the smallest bar, so that one sees it."""


class Bar(NamedTuple):
    """From a start as likely earlier as later to one by which it is nine times in ten, in percent of the scale."""

    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Scale:
    """``reach`` from ``since`` on."""

    since: datetime
    reach: timedelta

    @classmethod
    def over(cls, starts: Iterable[StartRange], now: datetime) -> Scale:
        """The shortest on which all of them are, as far as one is long enough."""
        last = max(one.p90_at for one in starts) - now
        return cls(now, next((step for step in STEPS if step >= last), STEPS[-1]))

    def bar(self, start: StartRange) -> Bar:
        """Where this one stands."""
        low, high = (self._percent(at) for at in (start.p50_at, start.p90_at))
        low = min(low, 100 - LEAST)
        return Bar(round(low, 2), round(max(LEAST, high - low), 2))

    def _percent(self, at: datetime) -> float:
        return min(100.0, max(0.0, 100 * ((at - self.since) / self.reach)))
