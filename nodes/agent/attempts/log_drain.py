"""Reading of an attempt's log to its end: its last lines go out before its exit is reported."""

from __future__ import annotations

from pathlib import Path

import structlog

from nodes.agent.attempts.context import RETRY_EVERY_S, AttemptContext
from nodes.agent.log_throttle import LogThrottle
from nodes.agent.logs.masks import Masks
from nodes.agent.steps import LogSteps
from nodes.agent.write_error import cannot_write
from nodes.protocol.steps import PatternInvalid

log = structlog.get_logger(__name__)

DRAIN_WITHIN_S = 1.0
DRAIN_POLL_S = 0.02


class LogDrain:
    """The log of one attempt, from its container's start to its last line."""

    def __init__(self, attempt: str, context: AttemptContext) -> None:
        self._attempt, self._context = attempt, context
        self._ended_at: float | None = None
        self._complete = False
        self._throttle = LogThrottle(context.clock.monotonic)

    def attach(self, masks: Masks | None, steps: str) -> None:
        """Starts reading once the secrets to mask are known; ``steps``: the pattern that finds its steps, or empty. A
        spool that cannot be opened holds nothing else up, and is tried again at each call."""
        try:
            if masks is not None:
                source = self._context.runtime.source(self._attempt)
                self._context.logs.attach(self._attempt, source, masks, _log_steps(steps))
            self._throttle.over()
        except Exception as error:
            why = cannot_write(error, Path("the log's spool")) if isinstance(error, OSError) else repr(error)
            if self._throttle.new(why):
                log.error("the log is not read", attempt=self._attempt, reason=why)

    def is_drained(self) -> bool:
        """Whether the exit may be reported: the last lines are sent, or have been too long in coming."""
        status = self._context.logs.status(self._attempt)
        return not self._ended_just_now() or (status.complete and status.sent)

    def finish(self, *, never_ran: bool) -> float | None:
        """Waits for the log's last line and reports it. Seconds until the next look; None once the log is complete."""
        if never_ran:
            self._context.logs.finish(self._attempt)
        if not self._context.logs.status(self._attempt).complete:
            return DRAIN_POLL_S if self._ended_just_now() else RETRY_EVERY_S
        if not self._complete:
            self._complete = True
            self._context.changed(True)
        return None

    def _ended_just_now(self) -> bool:
        """Whether the end was first seen within the time in which the last lines usually come."""
        now = self._context.clock.monotonic()
        self._ended_at = now if self._ended_at is None else self._ended_at
        return 0 <= now - self._ended_at < DRAIN_WITHIN_S


def _log_steps(pattern: str) -> LogSteps | None:
    """None for a pattern that this release cannot read: the log is worth more than its steps."""
    try:
        return LogSteps(pattern) if pattern else None
    except PatternInvalid:
        return None
