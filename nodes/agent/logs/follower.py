"""Follower of one container: a thread that reads its output into the spool as fast as it comes."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import structlog

from nodes.agent.log_throttle import LogThrottle
from nodes.agent.logs.base import MAX_PAYLOAD, FrameSource
from nodes.agent.logs.masking import StreamMasker
from nodes.agent.logs.masks import Masks
from nodes.agent.logs.provisional import provisional
from nodes.agent.logs.spool import Spool
from nodes.agent.steps import LogSteps
from nodes.agent.write_error import cannot_write
from nodes.protocol.logs import LogRecord, record_encode
from nodes.protocol.messages import Steps

LAG_FREEZE_NS = 5_000_000_000
"""Age of the record being read beyond which the reader counts as behind."""
LAG_THAW_NS = 1_000_000_000
BEHIND_S = 1.0
"""How long the reader must be behind before the container is frozen: a short backlog is read faster than that."""
IDLE_S = 0.5
"""A reader that found nothing for this long has caught up with a frozen container."""
HEARD_WITHIN_S = 0.1
"""How much later than a record its bytes may still appear as an unfinished line."""
RETRY_FIRST_S, RETRY_LAST_S = 0.1, 5.0

logger = structlog.get_logger(__name__)


class Follower:
    """Follows one container into its spool; what the container prints while nobody reads waits in the Engine.

    Too far behind the newest line, or on a full disk, it freezes the container until it has caught up. ``wake`` is
    called when there is something to send; ``marker`` is a file that exists while the container is frozen, so that a
    later agent thaws it. ``masks`` are applied before anything is written; ``steps`` reads what is left.
    """

    def __init__(
        self,
        attempt: str,
        source: FrameSource,
        spool: Spool,
        *,
        masks: Masks,
        steps: LogSteps | None = None,
        marker: Path,
        wake: Callable[[], None],
        now_ns: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source, self._spool, self._marker, self._wake = source, spool, marker, wake
        self._now_ns, self._monotonic = now_ns, monotonic
        self._masks, self._masking, self._taking = masks, StreamMasker(masks, {}), threading.Lock()
        self._steps = steps
        self._log = logger.bind(attempt=attempt)
        self._closing = threading.Event()
        self._freezing = threading.Lock()
        self._frozen = marker.exists()
        self._stuck = False
        self._behind_since: float | None = None
        self._taken_at = monotonic()
        self._read_at: dict[int, float] = {}
        self._complete = False
        self._thread = threading.Thread(target=self._run, name=f"log-{attempt}", daemon=True)

    @property
    def complete(self) -> bool:
        """The container has ended and its whole output is in the spool."""
        return self._complete

    @property
    def steps(self) -> Steps | None:
        """Steps told by the output so far."""
        return self._steps.read() if self._steps else None

    @property
    def frozen(self) -> bool:
        return self._frozen

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout: float = 5.0) -> None:
        """Detaches from the container, which runs on. Returns when the thread has ended, or after ``timeout``
        seconds."""
        self._closing.set()
        self._source.close()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        self._thaw()

    def tick(self) -> None:
        """Writes overdue output, and thaws a container whose output has been read to its end; called regularly by the
        pipeline."""
        if self._taking.acquire(blocking=False):
            try:
                self._give_out_overdue()
            finally:
                self._taking.release()
        if self._frozen and not self._stuck and self._monotonic() - self._taken_at > IDLE_S:
            self._thaw()

    def tail(self) -> tuple[int, bytes]:
        """The log's end, and behind it, as records, the container's unfinished lines. None of a stream that has just
        had a record: its bytes may still appear as an unfinished line."""
        lines = {} if self._complete or self._closing.is_set() else self._source.open_lines()
        end, now = self._spool.end, self._monotonic()
        records = (
            LogRecord(line.time_ns, stream, provisional(line, self._masks))
            for stream, line in sorted(lines.items())
            if now - self._read_at.get(stream, float("-inf")) > HEARD_WITHIN_S
        )
        return end, b"".join(record_encode(record) for record in records if record.payload)

    def _run(self) -> None:
        while self._spool.tail_uncertain:
            if self._closing.wait(0.2):
                return
        delay = RETRY_FIRST_S
        while not self._closing.is_set():
            before = self._spool.end
            try:
                self._read()
                return
            except Exception as error:  # a runtime may fail in any way; its output is still there to be read again
                delay = RETRY_FIRST_S if self._spool.end > before else min(2 * delay, RETRY_LAST_S)
                self._log.warning("log_unreadable", error=str(error), retry_s=delay)
            self._closing.wait(delay)

    def _read(self) -> None:
        with self._taking:
            self._masking = StreamMasker(self._masks, self._spool.open_lines)
        for record in self._source.frames(self._spool.position):
            self._read_at[record.stream] = self._monotonic()
            with self._taking:
                self._keep(self._masking.take(record, self._monotonic()))
            self._watch_lag(record)
            self._wake()
            if self._closing.is_set():
                return
        if not self._closing.is_set():
            with self._taking:
                self._keep(self._masking.rest())
            self._finish()

    def _finish(self) -> None:
        self._until_written(self._spool.settle)
        if missing := self._source.missing():
            self._until_written(lambda: self._spool.mark(f"{missing}\n", self._now_ns()))
        self._complete = not self._closing.is_set()
        self._thaw()
        self._wake()

    def _keep(self, records: Iterable[LogRecord]) -> None:
        for record in records:
            if self._steps:
                self._steps.take(record)
            for piece in _pieces(record):
                if not self._appended(piece):
                    self._until_written(lambda piece=piece: self._spool.append(piece))  # type: ignore[misc]

    def _give_out_overdue(self) -> None:
        """Stops at a full disk: the thread that reads is the one that freezes the container for it."""
        given = False
        for record in self._masking.overdue(self._monotonic()):
            if self._closing.is_set() or not self._appended(record):
                break
            if self._steps:
                self._steps.take(record)
            given = True
        if given:
            self._wake()

    def _appended(self, piece: LogRecord) -> bool:
        """Whether the disk took it."""
        try:
            self._spool.append(piece)
        except OSError:
            return False
        return True

    def _until_written(self, write: Callable[[], None]) -> None:
        """Calls ``write`` until the disk takes it; the container is frozen meanwhile."""
        throttle = LogThrottle()
        try:
            while not self._closing.is_set():
                try:
                    write()
                    break
                except OSError as error:
                    self._stuck = True
                    if throttle.new(why := cannot_write(error, Path("the log's spool"))):
                        self._log.error("the container stands still until its log can be written", reason=why)
                    self._freeze()
                self._closing.wait(1.0)
        finally:
            self._stuck = False  # whatever else fails: its output is read again, and until then it goes on

    def _watch_lag(self, record: LogRecord) -> None:
        self._taken_at = now = self._monotonic()
        lag = self._now_ns() - record.time_ns
        if lag > LAG_FREEZE_NS:
            if self._behind_since is None:
                self._behind_since = now
            elif now - self._behind_since >= BEHIND_S:
                self._freeze()
        elif lag < LAG_THAW_NS and (self._frozen or self._behind_since is not None):
            self._thaw()

    def _freeze(self) -> None:
        with self._freezing:
            if self._frozen:
                return
            with contextlib.suppress(OSError):  # on a full disk: only a killed agent's successor would miss it
                self._marker.touch()
            self._frozen = self._try("freeze", self._source.freeze)

    def _thaw(self) -> None:
        with self._freezing:
            self._behind_since = None
            if self._frozen and self._try("thaw", self._source.thaw):
                self._frozen = False
            if not self._frozen:
                with contextlib.suppress(OSError):  # on a disk that is read-only now: a later agent thaws in vain
                    self._marker.unlink(missing_ok=True)

    def _try(self, verb: str, action: Callable[[], None]) -> bool:
        try:
            action()
        except Exception as error:  # the container may have ended meanwhile, in any of the runtime's words
            self._log.warning("log_back_pressure_failed", verb=verb, error=str(error))
            return False
        return True


def _pieces(record: LogRecord) -> Iterator[LogRecord]:
    if len(record.payload) <= MAX_PAYLOAD:
        yield record
        return
    for at in range(0, len(record.payload), MAX_PAYLOAD):
        yield LogRecord(record.time_ns, record.stream, record.payload[at : at + MAX_PAYLOAD])
