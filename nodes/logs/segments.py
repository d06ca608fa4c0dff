"""The files of a spool: segments named by the offset of their first byte, holding whole records and nothing else."""

from __future__ import annotations

import os
from bisect import bisect_right
from pathlib import Path

from nodes.protocol import RECORD_HEADER, BrokenRecord, LogRecord, records_decode

SUFFIX = ".seg"


class Segments:
    """Segments of one folder, in order. Only the last one is written. Not thread-safe: the spool holds a lock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._firsts = sorted(int(path.stem) for path in folder.glob(f"*{SUFFIX}"))
        self._fd = -1
        self._written = 0  # bytes of the last segment

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
        """Opens the last segment, cuts off what is no whole record, and gives the records from ``trusted`` on.

        ``trusted``: an offset known to be a record's boundary; one before the segment means its start.
        """
        skip = max(0, trusted - self.last)
        data = self.path(self.last).read_bytes()
        records, good = _whole_records(data, skip)
        self._open(good)
        return records

    def begin(self, first: int) -> None:
        """Starts a new last segment at offset ``first``; the one before is on the disk when this returns."""
        self._firsts.append(first)
        self._open(0)

    def sync(self) -> None:
        """Returns when every byte of the last segment is on the disk."""
        if self._fd >= 0:
            os.fdatasync(self._fd)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Appends all of ``data`` or nothing. Raises OSError when the disk does not take it."""
        view, done = memoryview(data), 0
        try:
            while done < len(view):
                done += os.write(self._fd, view[done:])
        except OSError:
            os.ftruncate(self._fd, self._written)
            raise
        self._written += len(view)

    def read(self, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes from ``offset`` on, of one segment. Nothing at the end."""
        index = max(0, bisect_right(self._firsts, offset) - 1)
        first = self._firsts[index]
        with self.path(first).open("rb", buffering=0) as file:
            return os.pread(file.fileno(), size, offset - first)

    def next_start(self, offset: int) -> int:
        """First offset that is there at or after ``offset``, where segments are missing; else ``offset`` itself."""
        index = bisect_right(self._firsts, offset)
        if index == 0:
            return self.start
        first = self._firsts[index - 1]
        if index < len(self._firsts) and offset >= first + self.path(first).stat().st_size:
            return self._firsts[index]
        return offset

    def boundary_from(self, offset: int) -> int:
        """The first record's boundary at or after ``offset``; ``offset`` itself outside of what is here."""
        if not self.start < offset < self.end:
            return offset
        at = first = self._firsts[bisect_right(self._firsts, offset) - 1]
        data = self.path(first).read_bytes()
        while at < offset and at - first < len(data):
            at += RECORD_HEADER.size + RECORD_HEADER.unpack_from(data, at - first)[2]
        return max(at, offset)

    def drop_before(self, offset: int) -> None:
        """Deletes the segments that end at or before ``offset``; the last one stays."""
        while len(self._firsts) > 1 and self._firsts[1] <= offset:
            self.path(self._firsts.pop(0)).unlink(missing_ok=True)

    def close(self) -> None:
        if self._fd >= 0:
            os.fdatasync(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _open(self, size: int) -> None:
        self.close()
        self._fd = os.open(self.path(self.last), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.ftruncate(self._fd, size)
        self._written = size


def _whole_records(data: bytes, skip: int) -> tuple[list[LogRecord], int]:
    """Records of ``data`` from ``skip`` on, up to the first byte that is no whole record, and where that lies."""
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
