"""Several logs as one: looking back in all of them at once, and a text of all, merged by time."""

from __future__ import annotations

import heapq
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import RawIOBase
from itertools import chain

from nodes.protocol.logs import RECORD_HEADER
from portal.logs.reader import LogReader
from portal.logs.records import Run
from portal.logs.stream import LogOf
from portal.logs.stretches import Stretches

PIECE = 512 * 1024
"""Bytes of all logs together that one look back reads."""
LEAST_PIECE = 8 * 1024
CHUNK = 256 * 1024
TOGETHER, MOST_OF_ONE = 16 << 20, 1 << 20
"""Bytes buffered for a merged text: of all logs, and of each at most, which is one archive segment: so each is usually
unpacked once, even if there are more than the cache holds."""
LONGEST_LINE = 64 * 1024
UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


# ------------------------------------------------------------ looking back


def earlier(reader: LogReader, before: Mapping[LogOf, int]) -> dict[LogOf, Run]:
    """Records of several logs before these offsets, each as far back as all of them reach: merged by time, nothing is
    missing in between. A log that yields nothing yet is absent; one whose earlier records are all lost has an empty run
    from 0. A run that ends before its offset ends where bytes are lost."""
    open_logs = {log: offset for log, offset in before.items() if offset > 0}
    if not open_logs:
        return {}
    share = max(LEAST_PIECE, PIECE // len(open_logs))
    runs = {log: _up_to(reader, log, offset, share) for log, offset in open_logs.items()}
    since = max((_first_ns(run) for run in runs.values() if run.data and run.start > 0), default=0)
    cut = {log: _from_time(run, since) for log, run in runs.items()}
    return {log: run for log, run in cut.items() if run.data or not runs[log].data and _all_lost(reader, log)}


def _up_to(reader: LogReader, log: LogOf, end: int, size: int) -> Run:
    """About ``size`` bytes of records that end at ``end``, or at the gap that ends there; an empty run from 0 if there
    are none."""
    run = reader.read(log, max(0, end - size), size)
    while run.data and run.end < end:
        more = reader.read(log, run.end, end - run.end)
        if not more.data or more.start >= end:
            break
        run = run.joined(more) if more.start == run.end else more
    found = run.until(end)
    if not found.data and end > size:  # a wider gap
        before = Stretches(reader, log, backward=True).preceding(end)
        found = Run(0, b"") if before is None else before.after(before.end - size)
    return found if found.data else Run(0, b"")


def _all_lost(reader: LogReader, log: LogOf) -> bool:
    """Whether the log has later records, so that what precedes its offset, of which nothing exists, will not come any
    more."""
    return bool(reader.read(log, 0, 1).data)


def _first_ns(run: Run) -> int:
    return int(RECORD_HEADER.unpack_from(run.data)[0])


def _from_time(run: Run, since_ns: int) -> Run:
    """The run from its first record that is not older."""
    at = 0
    while at < len(run.data):
        time_ns, _, length = RECORD_HEADER.unpack_from(run.data, at)
        if time_ns >= since_ns:
            break
        at += RECORD_HEADER.size + length
    return Run(run.start + at, run.data[at:])


# ------------------------------------------------------------ downloads


@dataclass(frozen=True, slots=True)
class NamedLog:
    """A log with its label (``worker/3``), its ``file`` name in an archive, and a line ``last`` to append."""

    name: str
    file: str
    log: LogOf
    last: str = ""


def file_name(*parts: str | int) -> str:
    """A file name that is valid on every system, made of these parts."""
    return ".".join(UNFIT.sub("_", str(part)).strip(".") or "_" for part in parts)


def merged_text(reader: LogReader, logs: Sequence[NamedLog]) -> Iterator[bytes]:
    """All lines of all logs as of now, merged by time, each with its time (UTC) and its task's name."""
    size = min(MOST_OF_ONE, TOGETHER // max(1, len(logs)))
    width = max((len(one.name) for one in logs), default=0)
    lines = heapq.merge(*(_lines(reader, one, size, width) for one in logs), key=lambda line: line[0])
    text = bytearray()
    for _, line in lines:
        text += line
        if len(text) >= CHUNK:
            yield bytes(text)
            text.clear()
    for one in logs:
        if one.last:
            text += f"{one.name.ljust(width)} | {one.last}".encode()
    yield bytes(text)


def _lines(reader: LogReader, one: NamedLog, size: int, width: int) -> Iterator[tuple[int, bytes]]:
    """(sort key in ns, line) of one log; a line shows the time at which it began, and keys never decrease."""
    name, latest = one.name.ljust(width), 0
    for time_ns, text in _whole_lines(reader, one.log, size):
        latest = max(latest, time_ns)
        at = datetime.fromtimestamp(time_ns / 1e9, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        yield latest, f"{at} {name} | ".encode() + text + b"\n"


def _whole_lines(reader: LogReader, log: LogOf, size: int) -> Iterator[tuple[int, bytes]]:
    begun: dict[int, tuple[int, bytes]] = {}
    for time_ns, stream, payload in chain.from_iterable(reader.pieces(log, 0, reader.end(log), size)):
        since, held = begun.pop(stream, (time_ns, b""))
        *whole, rest = (held + payload).split(b"\n")
        for text in whole:
            yield since, text
            since = time_ns
        if len(rest) > LONGEST_LINE:
            yield since, rest
        elif rest:
            begun[stream] = (since, rest)
    yield from sorted(begun.values())


class _Sink(RawIOBase):
    """The output of a ZIP archive that is streamed: it cannot seek."""

    def __init__(self) -> None:
        self.held = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]
        self.held += data
        return len(data)

    def take(self) -> bytes:
        taken = bytes(self.held)
        self.held.clear()
        return taken


def zipped(reader: LogReader, logs: Sequence[NamedLog]) -> Iterator[bytes]:
    """A ZIP archive with one file per log, yielded as it is made."""
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as archive:
        for one in logs:
            with archive.open(one.file, "w", force_zip64=True) as file:
                for chunk in reader.download(one.log, one.last):
                    file.write(chunk)
                    if len(sink.held) >= CHUNK:
                        yield sink.take()
    yield sink.take()
