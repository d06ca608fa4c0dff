"""Text search in a stored log, a bounded stretch at a time, forward or backward from any offset.

Lines are searched as people read them: without terminal sequences, joined where records cut them, ignoring case.
Stateless between stretches: each rereads the end of what precedes it, for a line that crosses the border.
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
    """How many lines in bytes ``start`` to ``end`` contain the text, and those reported, in the order of the search.
    ``more``: the search can go on from ``end``, or backward from ``start``."""

    start: int
    end: int
    count: int
    hits: list[Hit]
    more: bool


@dataclass(frozen=True, slots=True)
class Bounds:
    """When one request stops: at so many lines (0: only count them), or when ``spent`` says so after a chunk."""

    hits: int
    spent: Callable[[], bool]


def search(reader: LogReader, log: LogOf, text: str, *, start: int, backward: bool, bounds: Bounds) -> Found:
    """Lines with ``text`` after a record boundary, or before it. Raises redis.RedisError as reading does."""
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
        more = False  # whatever is left is lost
    return Found(low, high, count, hits, more=more and (low > 0 if backward else high < stop))


class _LastParts:
    """Caches the parts of the last two runs: backward each is needed twice, first for its border."""

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
        """The unfinished lines that the run continues, if they begin in about ``BORDER`` bytes before it."""
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
    """Hits in the run, or in so much of its start (end) as has not too many; at least one record."""
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
