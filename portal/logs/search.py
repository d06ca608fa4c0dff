"""Finding a text in a stored log, a bounded stretch at a time, forward or backward from any place.

Lines are searched as people read them: without terminal sequences, put together where records cut them, upper and lower
case alike. Nothing is kept between two stretches: where one begins, the end of what stands before it is read again, for
a line that lies over the border.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from portal.logs.lines import BORDER, Heads, Hit, Parts, Wanted, heads_after, parts_of
from portal.logs.reader import LogReader
from portal.logs.records import Run
from portal.logs.stream import LogOf
from portal.logs.stretches import Stretches


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


def search(reader: LogReader, log: LogOf, text: str, *, start: int, backward: bool, bounds: Bounds) -> Found:
    """Lines with ``text`` from a record's boundary on, or before it. Raises redis.RedisError as reading does."""
    stretches, parts, wanted = Stretches(reader, log, backward=backward), _LastParts(), Wanted(text)
    stop = reader.end(log)
    low = high = min(start, stop)
    count, hits = 0, list[Hit]()
    before: Heads | None = None
    more = True
    while run := stretches.preceding(low) if backward else stretches.following(high):
        if backward or before is None:
            before = parts.border(stretches, run)
        if bounds.hits:
            run, found = _within(run, parts, before, wanted, bounds.hits - len(hits), backward)
            count += len(found)
            hits += reversed(found) if backward else found
        else:
            count += wanted.count(parts.of(run), before)
        before = heads_after(parts.of(run), before)
        low, high = min(low, run.start), max(high, run.end)
        if (bounds.hits and len(hits) >= bounds.hits) or bounds.spent():
            break
    else:
        more = False  # all that would be left is lost
    return Found(low, high, count, hits, more=more and (low > 0 if backward else high < stop))


class _LastParts:
    """The parts of the last two runs: backward each is looked at twice, first for what lies over its border."""

    def __init__(self) -> None:
        self._known: list[tuple[int, int, Parts]] = []

    def of(self, run: Run) -> Parts:
        for start, end, parts in self._known:
            if (start, end) == (run.start, run.end):
                return parts
        parts = parts_of(run)
        self._known = [*self._known[-1:], (run.start, run.end, parts)]
        return parts

    def border(self, stretches: Stretches, run: Run) -> Heads:
        """The lines that the run goes on with, as far as they begin in the ``BORDER`` bytes before it or so."""
        runs, heads = [run], Heads()
        while run.start - runs[-1].start < BORDER and runs[-1].start:
            before = stretches.preceding(runs[-1].start)
            if before is None or before.end != runs[-1].start:
                break
            runs.append(before)
        for one in reversed(runs[1:]):
            heads = heads_after(self.of(one), heads)
        return heads


def _within(
    run: Run, parts: _LastParts, before: Heads, wanted: Wanted, room: int, backward: bool
) -> tuple[Run, list[Hit]]:
    """The lines of the run, or of so much of its beginning (its end) as has not too many; of one record at least."""
    while True:
        found = wanted.hits(parts.of(run), before)
        if len(found) <= room:
            return run, found
        half = len(run.data) // 2
        less = run.after(run.start + half) if backward else run.within(half)
        if len(less.data) in {0, len(run.data)}:
            return run, found
        if backward:
            before = heads_after(parts_of(Run(run.start, run.data[: less.start - run.start])), before)
        run = less
