"""The spool: one task attempt's log on the node's disk. Its byte position is *the* offset.

Records go to append-only segment files. Killed at any byte it opens again with every whole record it had, and knows
from the records' headers and a small sidecar how far the container's output had been taken in.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path

from nodes.agent.clock import machine_boot
from nodes.agent.logs.base import MAX_PAYLOAD, Position
from nodes.agent.logs.segments import Segments, whole_prefix
from nodes.agent.logs.sidecar import Sidecar, position_after, sidecar_read, sidecar_write
from nodes.protocol.logs import MARK, RECORD_HEADER, LogRecord, record_encode

MAX_RECORD = MAX_PAYLOAD + RECORD_HEADER.size
BATCH = 64 * 1024
"""Bytes of small records that are written at once."""
FLUSH_S = 0.02
"""A record that comes later than this after the last write is written at once."""
TAIL = 4096
STATE_EVERY = 4 << 20
"""Bytes dropped between two notes of how far the drop has come."""


class Spool:
    """One log. Thread-safe.

    ``limit``: bytes kept while nobody archives, may be changed at any time; ``segment``: bytes after which a new file
    begins; ``clock``: monotonic seconds; ``boot``: the machine's boot; ``away``: whether the portal is, for the mark
    of dropped lines.
    Raises OSError from what writes when the disk is full; the record of that call is then not taken.
    """

    def __init__(
        self,
        folder: Path,
        *,
        limit: int = 1 << 30,
        segment: int = 4 << 20,
        clock: Callable[[], float] = time.monotonic,
        boot: str | None = None,
        away: Callable[[], bool] = lambda: True,
    ) -> None:
        self._folder, self.limit, self._segment, self._clock = folder, limit, segment, clock
        self._away = away
        self._lock = threading.RLock()
        self._buffer = bytearray()
        self._flushed_at = float("-inf")
        self._tail = bytearray()
        self._noted = 0
        self._removed = False
        self._boot = boot or machine_boot()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._segments = Segments(folder)
        with contextlib.ExitStack() as unless_opened:
            unless_opened.callback(self._segments.close)
            self._open()
            unless_opened.pop_all()

    # ------------------------------------------------------------ what there is

    @property
    def end(self) -> int:
        with self._lock:
            return self._segments.end + len(self._buffer)

    @property
    def start(self) -> int:
        """Offset of the oldest byte still held."""
        with self._lock:
            return self._segments.start

    @property
    def used(self) -> int:
        """Bytes held."""
        with self._lock:
            return self.end - self.start

    @property
    def position(self) -> Position:
        """How far the container's output was taken in, dropped lines included."""
        with self._lock:
            return Position(self._last_ns, self._at_last, dict(self._taken), self._newest_ns)

    @property
    def open_lines(self) -> dict[int, bytes]:
        """The last bytes of each stream that ends within a line."""
        with self._lock:
            return dict(self._drops.ends)

    @property
    def dropped_lines(self) -> int:
        with self._lock:
            return self._drops.total

    @property
    def tail(self) -> str:
        """What the container said last, at most ``TAIL`` bytes."""
        with self._lock:
            return bytes(self._tail[-TAIL:]).decode(errors="replace")

    @property
    def tail_uncertain(self) -> bool:
        """The machine was started anew since: newest bytes may be lost that others have. See ``resume_at``."""
        return self._tail_uncertain

    def read(self, offset: int, limit: int = BATCH) -> tuple[int, bytes]:
        """(start, whole records) from ``offset`` on: at most ``limit`` bytes, at least one record; b"" at the end.

        ``start`` is greater than ``offset`` where bytes are missing. ``offset`` is a record's boundary.
        """
        with self._lock:
            self._flush_what_fits()
            if self._removed:
                return offset, b""
            start, data = self._segments.read(offset, limit + MAX_RECORD)
        return start, data[: whole_prefix(data, limit)]

    def boundary_from(self, offset: int) -> int:
        """The first record's boundary at or after ``offset``; ``offset`` itself outside of what is here."""
        with self._lock:
            self._flush_what_fits()
            return self._segments.boundary_from(offset)

    # ------------------------------------------------------------ taking in

    def append(self, record: LogRecord) -> None:
        """Takes in one record of the container, of at most ``MAX_PAYLOAD`` bytes; whole lines are dropped while the
        spool is full."""
        with self._lock:
            self._append(record)
            self._advance(record)

    def mark(self, text: str, time_ns: int) -> None:
        """Adds a line of Berth's own; also to a full spool."""
        with self._lock:
            self._settle()
            self._write(LogRecord(time_ns, MARK, text.encode()))

    def settle(self) -> None:
        """Puts the mark for lines dropped so far, at the end of the log."""
        with self._lock:
            self._settle()
            self.flush()

    def flush(self) -> None:
        """Hands everything to the file system. Raises OSError when the disk is full; nothing is lost by that."""
        with self._lock:
            if self._buffer:
                self._segments.write(self._buffer)
                self._buffer.clear()
            self._flushed_at = self._clock()

    def _flush_what_fits(self) -> None:
        """A full disk keeps nobody from reading what it holds."""
        with contextlib.suppress(OSError):
            self.flush()

    # ------------------------------------------------------------ letting go

    def acknowledge(self, archived: int) -> None:
        """Drops whole segments before ``archived``."""
        with self._lock:
            self._segments.drop_before(archived)

    def resume_at(self, offset: int, time_ns: int) -> None:
        """Ends the doubt after a start of the machine: goes on at ``offset`` where others know more than the disk
        kept, with a mark; ``offset`` at or before the end changes nothing."""
        with self._lock:
            if offset > self.end:
                self._begin(offset)
                self.mark("… this node was started anew: lines around here may be missing or repeated\n", time_ns)
            self._tail_uncertain, self._sidecar.boot = False, self._boot
            self._save()

    def close(self) -> None:
        with self._lock:
            self.flush()
            self._segments.close()

    def remove(self) -> None:
        """Deletes the log."""
        with self._lock:
            self._removed = True
            self._buffer.clear()
            with contextlib.suppress(OSError):  # what the disk did not take goes as well
                self._segments.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    # ------------------------------------------------------------ inside

    def _open(self) -> None:
        known = sidecar_read(self._folder / "state.json")
        self._sidecar = known or Sidecar("")
        self._drops = self._sidecar.drops
        if self._segments.empty:
            self._segments.begin(self._sidecar.offset)
        records = self._segments.open_last(self._sidecar.offset)
        if self._segments.end < self._sidecar.offset:
            self._segments.begin(self._sidecar.offset)
        self._tail_uncertain = self._sidecar.boot != self._boot and self._segments.end > 0
        if not self._tail_uncertain:
            self._sidecar.boot = self._boot
        for record in records:
            self._replay(record)
        unknown = self._segments.earlier() if known is None else ()
        position = position_after(self._sidecar.position, chain(unknown, records))
        self._last_ns, self._at_last, self._taken = position.last_time_ns, position.at_last, position.payload_bytes
        self._newest_ns = position.newest_ns
        with contextlib.suppress(OSError):  # on a full disk: what is there now says no less
            self._save()

    def _replay(self, record: LogRecord) -> None:
        if record.stream == MARK:
            self._drops.pending, self._drops.active = 0, False
        else:
            self._keep(record)

    def _append(self, record: LogRecord) -> None:
        drops, used, limit = self._drops, self._segments.end + len(self._buffer) - self._segments.start, self.limit
        if drops.active and used <= limit - limit // 8:
            drops.active = False
        elif not drops.active and used + record.size > limit:
            drops.active, self._noted = True, STATE_EVERY
            drops.away = self._away() if not drops.pending else drops.away
        if drops.active:
            self._append_full(record)
        elif drops.pending or drops.cut:
            self._append_free(record)
        else:
            self._write(record)

    def _append_full(self, record: LogRecord) -> None:
        kept, dropped = self._drops.split_full(record.stream, record.payload)
        if kept:
            self._write(LogRecord(record.time_ns, record.stream, kept))
        self._drops.dropped(record.stream, dropped)
        self._noted += len(dropped)

    def _append_free(self, record: LogRecord) -> None:
        dropped, kept = self._drops.split_free(record.stream, record.payload)
        if kept:
            self._settle()
        self._drops.dropped(record.stream, dropped)
        if kept:
            self._write(LogRecord(record.time_ns, record.stream, kept))

    def _settle(self) -> None:
        """The mark of the pending drops. The sidecar goes first: killed between the two, the mark is still owed."""
        if self._drops.pending:
            self._save()
            self._write(LogRecord(self._last_ns, MARK, self._drops.mark().encode()))
        self._drops.pending, self._drops.active = 0, False

    def _write(self, record: LogRecord) -> None:
        if self._segments.end - self._segments.last + len(self._buffer) >= self._segment:
            self._begin(self.end)
        if len(self._buffer) >= BATCH or self._clock() - self._flushed_at > FLUSH_S:
            self.flush()
            self._segments.write(record_encode(record))
        else:
            self._buffer += record_encode(record)
        if record.stream != MARK:
            self._keep(record)

    def _begin(self, first: int) -> None:
        self._save()
        self._segments.begin(first)

    def _save(self) -> None:
        """Writes the sidecar for the end as it is now, which is on the disk before."""
        self.flush()
        self._segments.sync()
        self._sidecar.offset, self._sidecar.position = self._segments.end, self.position
        sidecar_write(self._folder / "state.json", self._sidecar)

    def _advance(self, record: LogRecord) -> None:
        self._at_last = self._at_last + 1 if record.time_ns == self._last_ns else 1
        self._last_ns = record.time_ns
        self._newest_ns = max(self._newest_ns, record.time_ns)
        self._taken[record.stream] = self._taken.get(record.stream, 0) + len(record.payload)
        if self._noted >= STATE_EVERY:
            self._noted = 0
            self._save()

    def _keep(self, record: LogRecord) -> None:
        self._drops.kept(record.stream, record.payload)
        self._tail += record.payload[-TAIL:]
        if len(self._tail) > 4 * TAIL:
            del self._tail[:-TAIL]
