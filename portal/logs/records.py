"""Runs of log records, and cutting them at record boundaries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from nodes.protocol.logs import MARK, RECORD_HEADER, STDERR, STDOUT

STREAMS = (STDOUT, STDERR, MARK)

Row = tuple[int, int, bytes]
"""Time in ns, stream, payload."""


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive whole records: the bytes from offset ``start`` on."""

    start: int
    data: bytes

    @property
    def end(self) -> int:
        return self.start + len(self.data)

    def rows(self) -> Iterator[Row]:
        """Each record as a row; a tuple, not an object, for speed."""
        data, at = self.data, 0
        while at < len(data):
            time_ns, stream, length = RECORD_HEADER.unpack_from(data, at)
            at += RECORD_HEADER.size + length
            yield time_ns, stream, data[at - length : at]

    def after(self, offset: int) -> Run:
        """The run without records that end at or before ``offset``: it begins at the last boundary not beyond it."""
        if offset >= self.end:
            return Run(self.end, b"")
        at = 0
        while (stop := _stop(self.data, at)) + self.start <= offset:
            at = stop
        return Run(self.start + at, self.data[at:])

    def until(self, offset: int) -> Run:
        """The run without records that end beyond ``offset``."""
        if self.end <= offset:
            return self
        at = 0
        while at < len(self.data) and self.start + (stop := _stop(self.data, at)) <= offset:
            at = stop
        return Run(self.start, self.data[:at])

    def within(self, limit: int) -> Run:
        """The run's first ``limit`` bytes at most, at least one record."""
        if len(self.data) <= limit:
            return self
        at = 0
        while at < len(self.data) and ((stop := _stop(self.data, at)) <= limit or not at):
            at = stop
        return Run(self.start, self.data[:at])

    def joined(self, other: Run) -> Run:
        """The run continued by one that begins at its end."""
        return Run(self.start, self.data + other.data)


def rows_told(run: Run, expected: int) -> Iterator[Row]:
    """The run's rows; if it begins beyond the ``expected`` offset, preceded by a line of Berth's own that says how many
    bytes are lost."""
    rows = run.rows()
    first = next(rows, None) if run.start > expected else None
    return rows if first is None else chain([lost(first[0], run.start - expected), first], rows)


def lost(time_ns: int, size: int) -> Row:
    """The row in place of so many lost bytes."""
    return time_ns, MARK, f"… {size} bytes of this log are lost\n".encode()


def is_whole(data: bytes) -> bool:
    """Whether ``data`` consists of whole records only."""
    at, end = 0, len(data)
    while at + RECORD_HEADER.size <= end:
        _, stream, length = RECORD_HEADER.unpack_from(data, at)
        if stream not in STREAMS:
            return False
        at += RECORD_HEADER.size + length
    return at == end


def _stop(data: bytes, at: int) -> int:
    """End of the record that begins at ``at``."""
    return at + RECORD_HEADER.size + int(RECORD_HEADER.unpack_from(data, at)[2])
