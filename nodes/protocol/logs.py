"""Log records: the bytes of a spool, of a stream entry and of an archive segment are the same.

A record is a header of 13 bytes (unix time in ns: u64, stream: u8, length: u32, big endian) and the payload as the
container wrote it. An offset is a byte position in the whole sequence of records of one task attempt; every entry and
every segment begins and ends at a record's boundary.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from nodes.protocol.envelope import EnvelopeForged, NodeKey, verify

RECORD_HEADER = struct.Struct(">QBI")
_OFFSET_DIGITS = 20
TAIL_BYTES = 4096
"""Most bytes sent of an unfinished line."""
STDOUT, STDERR, MARK = 1, 2, 3
"""Streams; MARK is a line of Berth's own (dropped lines, stop notices)."""


class BrokenRecord(ValueError):
    """Bytes that are no record. ``position`` counts from the start of the given bytes."""

    def __init__(self, position: int) -> None:
        super().__init__(f"no log record at byte {position}")
        self.position = position


@dataclass(frozen=True, slots=True)
class LogRecord:
    time_ns: int
    stream: int
    payload: bytes

    @property
    def size(self) -> int:
        """Bytes that it takes in the spool, header included."""
        return RECORD_HEADER.size + len(self.payload)


def record_encode(record: LogRecord) -> bytes:
    return RECORD_HEADER.pack(record.time_ns, record.stream, len(record.payload)) + record.payload


def records_decode(data: bytes | memoryview, *, partial: bool = False) -> Iterator[LogRecord]:
    """Records of ``data``. ``partial`` allows an unfinished last record (a spool being written), which is left out.
    Raises BrokenRecord."""
    view, position, end = memoryview(data), 0, len(data)
    while position < end:
        if end - position < RECORD_HEADER.size:
            break
        time_ns, stream, length = RECORD_HEADER.unpack_from(view, position)
        if stream not in (STDOUT, STDERR, MARK):
            raise BrokenRecord(position)
        stop = position + RECORD_HEADER.size + length
        if stop > end:
            break
        yield LogRecord(time_ns, stream, bytes(view[position + RECORD_HEADER.size : stop]))
        position = stop
    if position < end and not partial:
        raise BrokenRecord(position)


def _signed_text(attempt: str, start: int, data: bytes) -> bytes:
    return f"{attempt} {start} ".encode() + data


def signed_batch(key: NodeKey, attempt: str, start: int, data: bytes) -> dict[str, bytes]:
    """Fields of a stream entry: its bytes with a signature that binds them to attempt and offset."""
    return {"data": data, "sig": key.sign(_signed_text(attempt, start, data))}


def signed_tail(key: NodeKey, attempt: str, at: int, data: bytes) -> dict[str, bytes]:
    """Fields of the entry with the unfinished lines behind offset ``at``: ``data``, records that later ones replace, or
    none."""
    return {"at": str(at).encode(), **signed_batch(key, f"{attempt} tail", at, data)}


def verified_tail(node_public: str, attempt: str, fields: dict[bytes, bytes]) -> tuple[int, bytes]:
    """(offset, records) of such an entry. Raises EnvelopeForged, also for more than two lines can be."""
    if len(fields.get(b"data", b"")) > 2 * (RECORD_HEADER.size + TAIL_BYTES):
        raise EnvelopeForged("more than is told of lines without an end")
    text = fields.get(b"at", b"")
    at = int(text) if text.isdigit() and len(text) < _OFFSET_DIGITS else 0
    return verified_batch(node_public, f"{attempt} tail", at + len(fields.get(b"data", b"")), fields)


def verified_batch(node_public: str, attempt: str, end: int, fields: dict[bytes, bytes]) -> tuple[int, bytes]:
    """(start offset, bytes) of a stream entry whose id said ``end``. Raises EnvelopeForged."""
    data = fields.get(b"data", b"")
    start = end - len(data)
    verify(node_public, _signed_text(attempt, start, data), fields.get(b"sig", b""))
    return start, data
