"""Celery beat that survives changes of the wall clock: Celery's own waits for a time of day."""

from __future__ import annotations

import time
from typing import Any

import structlog
from celery.beat import Scheduler, SchedulingError

log = structlog.get_logger(__name__)

LOOKS_EVERY_S = 2.0
"""How long a jump of the clock may go unnoticed."""
JUMP_S = 1.0
"""Smaller differences are the clock being slewed."""


class SteadyScheduler(Scheduler):
    """Restarts all intervals when the wall clock has jumped against the monotonic one. Set back by two hours, beat
    would otherwise do nothing for two hours, and the scheduler with it.

    Keeps no state across restarts, since none of our intervals is longer than a few minutes.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._ahead = _ahead()
        super().__init__(*args, **{**kwargs, "max_interval": LOOKS_EVERY_S})

    def tick(self, *args: Any, **kwargs: Any) -> float:
        ahead = _ahead()
        if abs(jump := ahead - self._ahead) > JUMP_S:
            log.warning("the clock was set: regular tasks begin their intervals anew", by_s=round(jump))
            self._begin_anew()
        self._ahead = ahead
        return float(super().tick(*args, **kwargs))

    def apply_async(self, *args: Any, **kwargs: Any) -> Any:
        """Raises the SchedulingError from its cause, so that the log can tell an outage."""
        try:
            return super().apply_async(*args, **kwargs)
        except SchedulingError as error:
            raise error from error.__context__

    def _begin_anew(self) -> None:
        for entry in self.schedule.values():
            entry.last_run_at = entry.default_now()
        self.populate_heap()


def _ahead() -> float:
    return time.time() - time.monotonic()
