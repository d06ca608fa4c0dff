"""Finding a text in a stored log, a bounded stretch at a time, forward or backward from any place.

Lines are searched as people read them: without terminal sequences, put together where records cut them, upper and lower
case alike. Nothing is kept between two stretches: where one begins, the end of what stands before it is read again, for
a line that lies over the border.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from nodes.protocol import MARK, RECORD_HEADER
from portal.jobs.logs.reader import LogReader
from portal.jobs.logs.records import Run
from portal.jobs.logs.stream import LogOf
from portal.jobs.logs.text import NS_PER_MS

CHUNK = 2 << 20
"""Read at once; a segment of the archive is half of that."""
BORDER = 32 << 10
"""So much before a stretch is looked at for the beginning of a line that lies over its border."""
SHOWN = 300
"""Characters of a line that are told."""
SEQUENCES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\-_])")


@dataclass(frozen=True, slots=True)
class Hit:
    """A line that has the text. ``offset``: of the record that it begins in."""

    offset: int
    time_ms: int
    stream: int
    text: str


@dataclass(frozen=True, slots=True)
class Found:
    """How many lines of the log's bytes from ``start`` to ``end`` have the text, and those told, in the order of the
    search. ``more``: there is more to be searched, from ``end`` on, or backward from ``start``."""

    start: int
    end: int
    count: int
    hits: list[Hit]
    more: bool


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where one request ends: at so many lines (0: none are told, they are only counted), or when ``spent`` says so
    after a chunk."""

    hits: int
    spent: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class _Part:
    """What one stream has in a run: its bytes, and the records' places in them, in the log, and in time."""

    text: bytearray
    starts: list[int]
    offsets: list[int]
    times: list[int]


class _Head(NamedTuple):
    """The beginning of a line that goes on, and of its record offset and time."""

    text: bytes
    offset: int
    time_ns: int


Parts = dict[int, _Part]
Heads = dict[int, _Head]
"""Both by stream."""


def search(reader: LogReader, log: LogOf, wanted: str, *, start: int, backward: bool, bounds: Bounds) -> Found:
    """Lines with ``wanted`` from a record's boundary on, or before it. Raises redis.RedisError as reading does."""
    stop = reader.end(log)
    low = high = min(start, stop)
    count, hits, wanted = 0, list[Hit](), wanted.lower()
    before: Heads | None = None
    while run := _preceding(reader, log, low) if backward else _following(reader, log, high):
        if backward or before is None:
            before = _border(reader, log, run)
        run, parts, found = _within(run, before, wanted, bounds.hits - len(hits) if bounds.hits else run.end, backward)
        before = _heads(parts, before)
        low, high = min(low, run.start), max(high, run.end)
        count += len(found)
        hits += (reversed(found) if backward else found) if bounds.hits else ()
        if (bounds.hits and len(hits) >= bounds.hits) or bounds.spent():
            break
    return Found(low, high, count, hits, more=low > 0 if backward else high < stop)


def _within(run: Run, before: Heads, wanted: str, room: int, backward: bool) -> tuple[Run, Parts, list[Hit]]:
    """The lines of the run, or of so much of its beginning (its end) as has not too many; of one record at least."""
    while True:
        parts = _parts(run)
        found = _hits(parts, before, wanted)
        half = len(run.data) // 2
        less = run.after(run.start + half) if backward else run.within(half)
        if len(found) <= room or len(less.data) in {0, len(run.data)}:
            return run, parts, found
        if backward:
            before = _heads(_parts(Run(run.start, run.data[: less.start - run.start])), before)
        run = less


def _following(reader: LogReader, log: LogOf, at: int) -> Run | None:
    run = reader.read(log, at, CHUNK)
    return run if run.data else None


def _preceding(reader: LogReader, log: LogOf, at: int) -> Run | None:
    """What stands right before ``at``; it begins where a segment of the archive does, or ends it."""
    firsts = [0, *reader.archive.segments(log.attempt), reader.archive.end(log.attempt)]
    while at > 0:
        first = firsts[bisect_left(firsts, at) - 1]
        run = _between(reader, log, first, at)
        if run.data:
            return run
        at = first
    return None


def _between(reader: LogReader, log: LogOf, first: int, until: int) -> Run:
    run = reader.read(log, first, until - first)
    while run.data and run.end < until:
        more = reader.read(log, run.end, until - run.end)
        if not more.data or more.start != run.end:
            break
        run = run.joined(more)
    return run if run.start < until else Run(first, b"")


def _border(reader: LogReader, log: LogOf, run: Run) -> Heads:
    """The lines that the run goes on with."""
    return _heads(_parts(_between(reader, log, max(0, run.start - BORDER), run.start)), {}) if run.start else {}


def _heads(parts: Parts, before: Heads) -> Heads:
    """The lines that are open behind what has these parts, given those that were open before it."""
    heads = dict(before)
    for stream, part in parts.items():
        place = part.text.rfind(b"\n") + 1
        if place == len(part.text):
            heads.pop(stream, None)
        elif place or stream not in before:
            record = bisect_right(part.starts, place) - 1
            heads[stream] = _Head(bytes(part.text[place:][-BORDER:]), part.offsets[record], part.times[record])
        else:
            old = before[stream]
            heads[stream] = old._replace(text=(old.text + part.text)[-BORDER:])
    return heads


def _parts(run: Run) -> Parts:
    """Its streams apart. Without a call for each record that could be spared: logs are long."""
    parts: Parts = {}
    data, at, size, last = run.data, 0, len(run.data), 0
    while at < size:
        time_ns, stream, length = RECORD_HEADER.unpack_from(data, at)
        if stream != last:
            part = parts.get(stream) or parts.setdefault(stream, _Part(bytearray(), [], [], []))
            text, starts, offsets, times, last = part.text, part.starts, part.offsets, part.times, stream
        starts.append(len(text))
        offsets.append(run.start + at)
        times.append(time_ns)
        begin = at + RECORD_HEADER.size
        at = begin + length
        text += data[begin:at]
        if stream == MARK and data[at - 1] != 10:
            text.append(10)
    return parts


def _hits(parts: Parts, before: Heads, wanted: str) -> list[Hit]:
    """The lines that have the text and had it not before the run, in the order of their records."""
    found = [hit for stream, part in parts.items() for hit in _of_stream(stream, part, before.get(stream), wanted)]
    return sorted(found, key=lambda hit: hit.offset)


def _of_stream(stream: int, part: _Part, before: _Head | None, wanted: str) -> Iterator[Hit]:
    head, *begun = before or (b"", 0, 0)
    raw = head + part.text
    numbers = _line_numbers(_plain(raw).lower(), wanted)
    if not numbers:
        return
    breaks = [-1, *(one.start() for one in re.finditer(b"\n", raw)), len(raw)]
    for number in numbers:
        begin, end = breaks[number] + 1, breaks[number + 1]
        offset, time_ns = begun
        if begin >= len(head):
            record = bisect_right(part.starts, begin - len(head)) - 1
            offset, time_ns = part.offsets[record], part.times[record]
        elif wanted in _plain(head).lower():
            continue
        yield Hit(offset, time_ns // NS_PER_MS, stream, _shown(_plain(raw[begin:end]), wanted))


def _line_numbers(text: str, wanted: str) -> list[int]:
    """Which lines, from 0, have the text."""
    numbers, number, counted = list[int](), 0, 0
    place = text.find(wanted)
    while place >= 0:
        number += text.count("\n", counted, place)
        numbers.append(number)
        counted = place
        after = text.find("\n", place)
        place = text.find(wanted, after) if after >= 0 else -1
    return numbers


def _plain(raw: bytes | bytearray) -> str:
    text = raw.decode("utf-8", "replace")
    return SEQUENCES.sub("", text) if "\x1b" in text else text


def _shown(line: str, wanted: str) -> str:
    """The line, of a long one what stands around the text."""
    if len(line) <= SHOWN:
        return line.rstrip("\r")
    first = max(0, line.lower().find(wanted) - SHOWN // 3)
    return line[first : first + SHOWN]
