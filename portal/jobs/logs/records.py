"""Cutting runs of log records at their boundaries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nodes.protocol import RECORD_HEADER, LogRecord, records_decode


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring whole records: the bytes from offset ``start`` on."""

    start: int
    data: bytes

    @property
    def end(self) -> int:
        return self.start + len(self.data)

    def records(self) -> Iterator[LogRecord]:
        """Raises BrokenRecord."""
        return records_decode(self.data)

    def after(self, offset: int) -> Run:
        """Without the records that end at or before ``offset``: it begins at the last boundary not beyond it."""
        at = 0
        while at < len(self.data) and (stop := _stop(self.data, at)) + self.start <= offset:
            at = stop
        return Run(self.start + at, self.data[at:])

    def within(self, limit: int) -> Run:
        """At most ``limit`` bytes of it, at least one record."""
        if len(self.data) <= limit:
            return self
        at = 0
        while at < len(self.data) and ((stop := _stop(self.data, at)) <= limit or not at):
            at = stop
        return Run(self.start, self.data[:at])

    def joined(self, other: Run) -> Run:
        """With a run that begins at its end."""
        return Run(self.start, self.data + other.data)


def _stop(data: bytes, at: int) -> int:
    """Where the record that begins at ``at`` ends."""
    return at + RECORD_HEADER.size + int(RECORD_HEADER.unpack_from(data, at)[2])
