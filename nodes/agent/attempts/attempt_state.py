"""The record and progress of one attempt: saved to the journal, shown in reports, secrets masked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import structlog

from nodes.agent.attempts.context import AttemptContext
from nodes.agent.attempts.journal import Record
from nodes.agent.attempts.secrets import AttemptSecrets
from nodes.agent.write_error import cannot_write
from nodes.protocol.messages import ContainerReport, Progress, Steps
from nodes.protocol.states import ContainerState, reached

log = structlog.get_logger(__name__)


class AttemptState:
    """State of one attempt, changed by its own thread alone; ``report`` may be called from any."""

    def __init__(self, record: Record, context: AttemptContext) -> None:
        self.record = record
        self.progress: Progress | None = None
        self.steps: Steps | None = None
        self.secrets = AttemptSecrets(context)
        self._context = context
        self._unwritten = False

    def report(self, generation: int) -> ContainerReport:
        """The attempt as it stands now."""
        record, status = self.record, self._context.logs.status(self.record.attempt)
        return replace(
            record.report(generation),
            exit=replace(record.exit, log_tail=status.tail) if record.exit else None,
            log_end=status.end,
            log_complete=record.exit is not None and status.complete,
            log_dropped_lines=status.dropped_lines,
            progress=self.progress,
            steps=self.steps or status.steps,
        )

    def show(self, progress: Progress) -> None:
        """Reports what the attempt is waiting for."""
        progress = self.secrets.progress(progress)
        if progress != self.progress:
            self.progress = progress
            self._context.changed(False)

    def move(self, state: ContainerState) -> None:
        """Saves the record with a later state; never goes back."""
        self.save(self.record.forward(state))

    def save(self, record: Record) -> None:
        """Writes the record where it differs, then reports the change. Raises OSError."""
        if record == self.record and not self._unwritten:
            return
        self._write(record)
        old, self.record = self.record, record
        if record != old:
            moved = record.parking.state is not old.parking.state  # off its GPU or back: the next one waits for it
            self._context.changed((record.state is not old.state and record.is_awaited) or moved)

    def retry_write(self) -> None:
        """Writes a record that a full disk has refused before."""
        if self._unwritten:
            self.save(self.record)

    def _write(self, record: Record) -> None:
        """On a full disk, a running attempt goes on in memory: a signal sent twice after a restart of the agent is
        better than none. An attempt not yet started waits, and so does a tombstone."""
        try:
            self._context.journal.write(record)
            self._unwritten = False
        except OSError as error:
            begun = record.stopping is not None or reached(record.state, ContainerState.RUNNING)
            if not begun or record.removed_ms is not None:
                raise
            if not self._unwritten:
                why = cannot_write(error, Path(f"the record of {record.attempt}"))
                log.warning("a record is kept in memory alone", attempt=record.attempt, reason=why)
            self._unwritten = True
