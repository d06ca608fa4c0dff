"""Termination of an attempt: how its container is warned and stopped, and when its GPUs are free.

Each step may be repeated, and the agent may die between any two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from signal import SIGKILL, SIGTERM

import structlog

from nodes.agent.attempts.context import AttemptContext
from nodes.agent.attempts.exit_cause import exit_stopped_before_start, exit_unkillable
from nodes.agent.attempts.journal import Record, Stopping
from nodes.agent.disk.layer_limit import LayerSize
from nodes.agent.runtimes.base import RuntimeContainer, RuntimeUnavailable, Status
from nodes.agent.runtimes.stop_notice import notice_text
from nodes.protocol.messages import Exit
from nodes.protocol.states import Cause

log = structlog.get_logger(__name__)

GRACE_S = 30
UNKILLABLE_AFTER_S = 120.0
_POLL_EVERY_S = 5.0
_REST_EVERY_S, _LAST_S = 1.0, 5.0
"""How often processes that read what others write are checked, and how long before SIGKILL all of them get SIGTERM."""
_KILLED_WITHIN_S = 1.0
_MOST_FAILED_SIGTERMS = 5


class Termination:
    """Signals and warnings of one attempt. ``save`` takes the record: a step is recorded before it is done, SIGKILL
    after."""

    def __init__(self, context: AttemptContext, save: Callable[[Record], None]) -> None:
        self._context = context
        self._save = save
        self._failed_sigterms = 0
        self._notice_written = True  # for all that this life of the agent knows
        self._left_since: float | None = None

    def layer(self, record: Record, taken: LayerSize) -> None:
        """Warns a container that has written too many bytes into its own layer, and stops it when a count begun after
        the grace period still says so: it had that time to delete some."""
        rule, now, warned_ms = self._context.layers, self._context.clock.now_ms(), record.layer_warned_ms
        if taken <= rule.most:
            self._withdraw_warning(record, taken)
        elif warned_ms is None:
            warning = rule.warning(taken)
            self._context.logs.note(record.attempt, warning)
            self._write_notice(record, _layer_full(warning, int(rule.grace_s), now))
            self._save(replace(record, layer_warned_ms=now))
        elif now < warned_ms:
            self._save(replace(record, layer_warned_ms=now))  # the clock was set back: the grace begins anew
        elif warned_ms + rule.grace_s * 1000 <= taken.began_ms <= now:
            self._save(replace(record, stopping=_layer_full(rule.verdict(taken), GRACE_S, now)))

    def _withdraw_warning(self, record: Record, taken: LayerSize) -> None:
        """Takes the warning back: the notice first, for programs look for it, and the record last, so that an agent
        killed in between does it again. One killed before it recorded its warning has left a notice, too."""
        if self._notice_written:
            self._remove_notice(record)
        if record.layer_warned_ms is not None:
            self._context.logs.note(record.attempt, self._context.layers.relief(taken))
            self._save(replace(record, layer_warned_ms=None))

    def stop(self, record: Record, found: RuntimeContainer | None) -> float | Exit:
        """Sends SIGTERM, SIGKILL after the grace period, and at last gives up. Seconds until the next look, or the exit
        where the runtime reports none."""
        stopping = record.stopping
        assert stopping is not None
        if found is None or found.status is Status.CREATED:
            return exit_stopped_before_start(stopping)
        now = self._context.clock.monotonic()
        if record.parking.is_off and (stopping.term_at is None or stopping.grace_s):
            return self._skip_term(record, replace(stopping, term_at=now, grace_s=0))
        if stopping.term_at is None or stopping.term_at > now:
            return self._term(record, replace(stopping, term_at=now, kill_at=None))
        kill_after = stopping.term_at + stopping.grace_s
        if stopping.kill_at is None and now < kill_after:
            return self._term_rest(record, stopping, kill_after - now)
        if stopping.kill_at is not None and now >= stopping.kill_at + UNKILLABLE_AFTER_S:
            return exit_unkillable(stopping)
        self._context.runtime.signal(record.attempt, SIGKILL)
        if stopping.kill_at is not None:
            return _POLL_EVERY_S
        # Recorded once it got through, and not before: what was never sent, nothing has outlived.
        self._save(replace(record, stopping=replace(stopping, kill_at=self._context.clock.monotonic())))
        return _KILLED_WITHIN_S

    def kills_next(self, record: Record) -> bool:
        """Whether the first SIGKILL is due."""
        stopping = record.stopping
        if stopping is None or stopping.term_at is None or stopping.kill_at is not None:
            return False
        return self._context.clock.monotonic() >= stopping.term_at + stopping.grace_s

    def kill_survivor(self, record: Record, found: RuntimeContainer | None) -> bool:
        """Sends SIGKILL again to a container reported unkillable that still runs; True where there is one. What kept it
        from ending may be over by now."""
        outlived = record.exit is not None and record.exit.cause is Cause.UNKILLABLE
        if not outlived or found is None or found.status is not Status.RUNNING:
            return False
        self._context.runtime.signal(record.attempt, SIGKILL)
        return True

    def release_gpus(self, record: Record) -> Record:
        """The record of an ended container: without GPUs once none of its processes is on them, or the timeout is over.
        By then each is reported as a foreign process, which fences its GPU."""
        now, since = self._context.clock.monotonic(), self._left_since
        waits = record.gpus and (since is None or now - since < self._context.gpu_release_timeout_s)
        left = self._context.processes_on_gpus(record) if waits else ()
        if not left:
            return replace(record, gpus=())
        if since is None:
            self._left_since = now
            log.warning("processes of an ended task are still on its GPUs", attempt=record.attempt, pids=left)
        return record

    def _skip_term(self, record: Record, stopping: Stopping) -> float:
        """Records the stop of a parked task, which SIGKILL ends as it is."""
        self._context.logs.note(record.attempt, stopping.words)
        self._save(replace(record, stopping=stopping))
        return 0.0

    def _term(self, record: Record, stopping: Stopping) -> float:
        """Records the stop, then sends SIGTERM; the notice is there before. A signal that did not get through is sent
        again, and the grace period begins with it; but not for ever."""
        if not self._failed_sigterms:
            self._context.logs.note(record.attempt, stopping.words)
            self._write_notice(record, stopping)
        self._save(replace(record, stopping=stopping))
        try:
            self._context.runtime.signal(record.attempt, SIGTERM)
        except RuntimeUnavailable:
            if self._failed_sigterms < _MOST_FAILED_SIGTERMS:
                self._failed_sigterms += 1
                self._save(replace(record, stopping=replace(stopping, term_at=None)))
            raise
        return min(float(stopping.grace_s), _REST_EVERY_S)

    def _term_rest(self, record: Record, stopping: Stopping, left_s: float) -> float:
        """Sends SIGTERM to processes that waited for others to end, to all of them shortly before SIGKILL. Seconds
        until the next look."""
        last_s = min(_LAST_S, stopping.grace_s / 2)
        if self._context.runtime.signal_pipe_readers(record.attempt, last=left_s <= last_s):
            return min(left_s - last_s, _REST_EVERY_S) if left_s > last_s else left_s
        return left_s

    def _write_notice(self, record: Record, stopping: Stopping) -> None:
        self._notice_written = True
        try:
            now_ms = self._context.clock.now_ms()
            text = notice_text(stopping.why, stopping.message, stopping.grace_s, now_ms)
            self._context.runtime.write_notice(record.attempt, text)
        except OSError as error:
            log.warning("the notice cannot be written", attempt=record.attempt, error=str(error))

    def _remove_notice(self, record: Record) -> None:
        try:
            self._context.runtime.remove_notice(record.attempt)
        except OSError as error:
            log.warning("the notice cannot be removed", attempt=record.attempt, error=str(error))
        self._notice_written = False


def _layer_full(message: str, grace_s: int, asked_ms: int) -> Stopping:
    return Stopping(reason=None, cause=Cause.LAYER_FULL, message=message, grace_s=grace_s, asked_ms=asked_ms)
