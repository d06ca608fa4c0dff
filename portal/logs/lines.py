"""Lines of a stretch of a log as people read them, and the search for a text in them.

Logs are long: whole stretches are processed by bytes functions, and what only reported lines need (their records'
offsets and times) is computed for these alone.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import AnyStr, NamedTuple

from nodes.protocol.logs import MARK, RECORD_HEADER
from portal.logs.records import Run
from portal.logs.text import NS_PER_MS

BORDER = 32 << 10
"""Bytes before a stretch to search for the start of a line that crosses its border."""
SHOWN = 300
"""Characters reported of a line."""
SEQUENCES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\-_])")
CUT = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*)?$")
"""An unfinished escape sequence, where a line is not complete yet."""
MOST_KNOWN = 8
_STREAM_LENGTH = struct.Struct(">8xBI")
"""A record's header without its time, which most lines never need."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A line that contains the text. ``offset``: of the record that it begins in."""

    offset: int
    time_ms: int
    stream: int
    text: str


class Head(NamedTuple):
    """The start of an unfinished line, with its record's offset and time."""

    text: bytes
    offset: int
    time_ns: int


class Part:
    """The text of one stream in a run."""

    def __init__(self, run: Run, payloads: list[bytes], places: list[int]) -> None:
        """``places``: the position in the run of each payload's record."""
        self.text = b"".join(payloads)
        self._run, self._payloads, self._places = run, payloads, places
        self._ends: Sequence[int] = ()

    def record_at(self, place: int) -> tuple[int, int]:
        """The record with this byte of the text: its offset in the log and its time in ns."""
        self._ends = self._ends or list(accumulate(map(len, self._payloads)))
        at = self._places[min(bisect_right(self._ends, place), len(self._places) - 1)]
        return self._run.start + at, int(RECORD_HEADER.unpack_from(self._run.data, at)[0])


Parts = dict[int, Part]
Heads = dict[int, Head]
"""Parts and heads by stream."""


def parts_of(run: Run) -> Parts:
    """Splits a run by stream. Inlined for speed: no calls per record."""
    found: dict[int, tuple[list[bytes], list[int]]] = {}
    data, at, size, last, header = run.data, 0, len(run.data), 0, RECORD_HEADER.size
    unpack = _STREAM_LENGTH.unpack_from
    while at < size:
        stream, length = unpack(data, at)
        if stream != last:
            last, (payloads, places) = stream, found.setdefault(stream, ([], []))
        places.append(at)
        begin = at + header
        at = begin + length
        payloads.append(data[begin:at])
    if MARK in found:
        payloads, places = found[MARK]
        found[MARK] = [one if one.endswith(b"\n") else one + b"\n" for one in payloads], places
    return {stream: Part(run, *both) for stream, both in found.items()}


def heads_after(parts: Parts, before: Heads) -> Heads:
    """The unfinished lines after these parts, given those before them."""
    heads = dict(before)
    for stream, part in parts.items():
        place = part.text.rfind(b"\n") + 1
        if place == len(part.text):
            heads.pop(stream, None)
        elif place or stream not in before:
            heads[stream] = Head(part.text[place:][-BORDER:], *part.record_at(place))
        else:
            old = before[stream]
            heads[stream] = old._replace(text=(old.text + part.text)[-BORDER:])
    return heads


@dataclass(slots=True)
class Wanted:
    """A text to search for in lines, ignoring case and terminal sequences."""

    text: str
    _bytes: bytes | None = field(init=False)
    _known: list[bytes] = field(init=False, default_factory=list)
    """Escape sequences that recur in the log: colours. Removing a handful literally is four times as fast as matching
    any."""

    def __post_init__(self) -> None:
        self.text = self.text.lower()
        self._bytes = self.text.encode() if all(map(_has_one_case, self.text)) else None

    def count(self, parts: Parts, before: Heads) -> int:
        """How many lines contain the text, except those that did before the run."""
        return sum(len(self._places(part.text, before.get(stream))[1]) for stream, part in parts.items())

    def hits(self, parts: Parts, before: Heads) -> list[Hit]:
        """These lines, in the order of their records."""
        found = [hit for stream, part in parts.items() for hit in self._of_stream(stream, part, before.get(stream))]
        return sorted(found, key=lambda hit: hit.offset)

    def _of_stream(self, stream: int, part: Part, before: Head | None) -> Iterator[Hit]:
        head, *begun = before or (b"", 0, 0)
        text, places = self._places(part.text, before)
        if not places:
            return
        raw = head + part.text
        breaks = [-1, *(one.start() for one in re.finditer(b"\n", raw)), len(raw)]
        number, counted = 0, 0
        for place in places:
            number, counted = number + _breaks(text, counted, place), place
            begin, end = breaks[number] + 1, breaks[number + 1]
            offset, time_ns = part.record_at(begin - len(head)) if begin >= len(head) else begun
            yield Hit(offset, time_ns // NS_PER_MS, stream, self._shown(raw[begin:end]))

    def _places(self, text: bytes, before: Head | None) -> tuple[bytes | str, list[int]]:
        """The text in lower case, after the unfinished line before it, and the first match in each of its lines; except
        in a line that matched before."""
        head = before.text if before else b""
        plain = self._small(head + text)
        places = _first_of_lines(plain, self._bytes, b"\n") if isinstance(plain, bytes) and self._bytes else []
        if isinstance(plain, str):
            places = _first_of_lines(plain, self.text, "\n")
        if head and places and not _breaks(plain, 0, places[0]) and self._is_in(head):
            del places[0]
        return plain, places

    def _is_in(self, raw: bytes) -> bool:
        plain = self._small(raw)
        return self.text in plain if isinstance(plain, str) else (self._bytes or b"") in plain

    def _small(self, raw: bytes) -> bytes | str:
        plain = self._plain(raw)
        return plain.lower() if self._bytes is not None else plain.decode("utf-8", "replace").lower()

    def _plain(self, raw: bytes) -> bytes:
        """The bytes without escape sequences."""
        if b"\x1b" not in raw:
            return raw
        if b"\x1b\x1b" not in raw:  # else removing one could form another
            text = raw
            for one in self._known:
                text = text.replace(one, b"")
            if b"\x1b" not in text:
                return text
        if len(self._known) < MOST_KNOWN:
            new = {one for one in SEQUENCES.findall(raw[:BORDER]) if one.startswith(b"\x1b[")}
            self._known += sorted(new.difference(self._known))[: MOST_KNOWN - len(self._known)]
        return SEQUENCES.sub(b"", raw)

    def _shown(self, raw: bytes) -> str:
        """The line as text; if it is long, the part around the match."""
        line = CUT.sub(b"", self._plain(raw)).decode("utf-8", "replace")
        if len(line) <= SHOWN:
            return line.rstrip("\r")
        first = max(0, line.lower().find(self.text) - SHOWN // 3)
        return line[first : first + SHOWN]


def _first_of_lines(text: AnyStr, wanted: AnyStr, line_break: AnyStr) -> list[int]:
    places, place = list[int](), text.find(wanted)
    while place >= 0:
        places.append(place)
        after = text.find(line_break, place)
        place = text.find(wanted, after) if after >= 0 else -1
    return places


def _breaks(text: bytes | str, start: int, end: int) -> int:
    return text.count("\n", start, end) if isinstance(text, str) else text.count(b"\n", start, end)


def _has_one_case(letter: str) -> bool:
    """Whether a byte search finds the letter in any case: it is ASCII, or has no case and stands for nothing else."""
    return letter.isascii() or (letter.upper() == letter.lower() == letter and letter not in "\u0307\ufffd")
