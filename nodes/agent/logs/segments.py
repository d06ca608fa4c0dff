"""Segment files of a spool, named by the offset of their first byte; they hold whole records and nothing else."""

from __future__ import annotations

import errno
import os
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

import structlog

from nodes.protocol.logs import RECORD_HEADER, BrokenRecord, LogRecord, records_decode

SUFFIX = ".seg"
LOST = frozenset({errno.ENOENT, errno.EIO, errno.EUCLEAN, errno.EBADMSG})
"""Errors of data that will not come back, however often it is read."""

logger = structlog.get_logger(__name__)


class Segments:
    """Segments of one folder, in order. Only the last one is written. Not thread-safe: the spool holds a lock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._firsts = sorted(int(path.stem) for path in folder.glob(f"*{SUFFIX}"))
        self._fd = -1
        self._written = 0  # bytes of the last segment
        self._logged: set[int] = set()

    @property
    def empty(self) -> bool:
        return not self._firsts

    @property
    def start(self) -> int:
        """Offset of the oldest byte still there."""
        return self._firsts[0]

    @property
    def last(self) -> int:
        """Offset of the first byte of the last segment."""
        return self._firsts[-1]

    @property
    def end(self) -> int:
        return self._firsts[-1] + self._written

    def path(self, first: int) -> Path:
        return self._folder / f"{first:020d}{SUFFIX}"

    def open_last(self, trusted: int) -> list[LogRecord]:
        """Opens the last segment, cuts off a partial record, and gives the records from ``trusted`` on.

        ``trusted``: an offset known to be a record's boundary; one before the segment means its start.
        """
        skip = max(0, trusted - self.last)
        data = self.path(self.last).read_bytes()
        records, good = _whole_records(data, skip)
        self._turn_to(self.last, good)
        return records

    def earlier(self) -> Iterator[LogRecord]:
        """Records before the last segment."""
        for first in self._firsts[:-1]:
            yield from _whole_records(self.path(first).read_bytes(), 0)[0]

    def begin(self, first: int) -> None:
        """Starts a new last segment at offset ``first``; the one before is on disk when this returns.

        Raises OSError when the disk does not take it: then nothing has changed.
        """
        self._turn_to(first, 0)
        self._firsts.append(first)

    def sync(self) -> None:
        """Returns when every byte of the last segment is on disk."""
        if self._fd >= 0:
            os.fdatasync(self._fd)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Appends all of ``data`` or nothing. Raises OSError when the disk does not take it."""
        # Released whatever happens: who still held the error of a refused write would keep ``data`` from being emptied.
        with memoryview(data) as view:
            done, size = 0, len(view)
            try:
                while done < size:
                    with view[done:] as rest:
                        done += os.write(self._fd, rest)
            except BaseException:  # also of what is no matter of the disk: half a record stays in no file
                os.ftruncate(self._fd, self._written)
                raise
        self._written += size

    def read(self, offset: int, size: int) -> tuple[int, bytes]:
        """(start, up to ``size`` bytes of one segment) from ``offset`` on; nothing at the end.

        ``start`` is the next segment's where bytes are missing, also because the disk has lost them. Raises OSError
        where they cannot be read now, or are the last segment's.
        """
        for first in self._firsts[max(0, bisect_right(self._firsts, offset) - 1) :]:
            start = max(offset, first)
            try:
                with self.path(first).open("rb", buffering=0) as file:
                    data = os.pread(file.fileno(), size, start - first)
            except OSError as error:
                if first == self.last or error.errno not in LOST:
                    raise
                self._tell_lost(first, error)
                continue
            if data:
                return start, data
        return max(offset, self.start), b""

    def boundary_from(self, offset: int) -> int:
        """The first record boundary at or after ``offset``; ``offset`` itself outside of what is here, and where the
        disk has lost the data to find it."""
        if not self.start < offset < self.end:
            return offset
        at = first = self._firsts[bisect_right(self._firsts, offset) - 1]
        try:
            data = self.path(first).read_bytes()
        except OSError as error:
            if error.errno not in LOST:
                raise
            self._tell_lost(first, error)
            return offset
        while at < offset and at - first < len(data):
            at += RECORD_HEADER.size + RECORD_HEADER.unpack_from(data, at - first)[2]
        return max(at, offset)

    def drop_before(self, offset: int) -> None:
        """Deletes the segments that end at or before ``offset``; the last one stays."""
        while len(self._firsts) > 1 and self._firsts[1] <= offset:
            self.path(self._firsts.pop(0)).unlink(missing_ok=True)

    def close(self) -> None:
        """Returns when everything is on disk. Raises OSError when it may not be; the file is closed then too."""
        try:
            self.sync()
        finally:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def _turn_to(self, first: int, size: int) -> None:
        """Switches writing to the segment at ``first``, behind its first ``size`` bytes."""
        fd = os.open(self.path(first), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.ftruncate(fd, size)
            self.sync()
        except OSError:
            os.close(fd)
            raise
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._written = fd, size

    def _tell_lost(self, first: int, error: OSError) -> None:
        if first not in self._logged:
            self._logged.add(first)
            logger.error("a part of a log cannot be read", path=str(self.path(first)), reason=error.strerror)


def _whole_records(data: bytes, skip: int) -> tuple[list[LogRecord], int]:
    """Records of ``data`` from ``skip`` on, up to the first partial record, and where that lies."""
    records: list[LogRecord] = []
    good = min(skip, len(data))
    try:
        for record in records_decode(memoryview(data)[good:], partial=True):
            records.append(record)
            good += record.size
    except BrokenRecord:
        pass
    return records, good


def whole_prefix(data: bytes, limit: int) -> int:
    """Length of the longest run of whole records within ``limit`` bytes of ``data``; at least the first record."""
    position = 0
    while position + RECORD_HEADER.size <= len(data):
        stop = position + RECORD_HEADER.size + RECORD_HEADER.unpack_from(data, position)[2]
        if stop > len(data) or (stop > limit and position):
            break
        position = stop
    return position
