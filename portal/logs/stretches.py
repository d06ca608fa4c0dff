"""Reads a log in one direction: archived parts by segment, the rest by offset."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from concurrent.futures import Future, ThreadPoolExecutor

from portal.logs.reader import LogReader
from portal.logs.records import Run
from portal.logs.stream import LogOf

CHUNK = 2 << 20
"""Bytes of unarchived log read at once; an archive segment is half of that."""
ENOUGH = 512 * 1024
"""Bytes; smaller segments, of which a quiet log has many, are returned several together."""
_beside = ThreadPoolExecutor(2, thread_name_prefix="log-unpack")
"""Threads for unpacking, which releases the GIL, so it costs no time if a core is free."""


class Stretches:
    """One request's pass over a log. Lists the archive folder once, and unpacks the next segment while the last one is
    processed. Results end at a record boundary and are never empty."""

    def __init__(self, reader: LogReader, log: LogOf, *, backward: bool) -> None:
        self._reader, self._log, self._step = reader, log, -1 if backward else 1
        self._firsts = reader.archive.segments(log.attempt)
        newest = self._firsts[-1] if self._firsts else 0
        self._archived_to = reader.archive.segment_end(log.attempt, newest) or newest
        self._ahead: tuple[int, Future[Run]] | None = None
        self._last: tuple[int, Run | None] | None = None

    def following(self, at: int) -> Run | None:
        """The stretch from ``at`` on, or after the gap that begins there; None at the end."""
        runs = list[Run]()
        for index in range(max(0, bisect_right(self._firsts, at) - 1), len(self._firsts)):
            run = self._segment(index) if runs else self._segment(index).after(at)
            if runs and (run.start != runs[-1].end or not run.data):
                break
            if run.data:
                runs.append(run)
            if runs and run.end - runs[0].start >= ENOUGH:
                break
        if runs:
            return _joined(runs)
        run = self._reader.read(self._log, at, CHUNK)
        return run if run.data else None

    def preceding(self, at: int) -> Run | None:
        """The stretch right before the boundary ``at``, or before the gap that ends there; None at the start. The last
        result is cached."""
        if self._last is None or self._last[0] != at:
            self._last = at, self._before(at)
        return self._last[1]

    def _before(self, at: int) -> Run | None:
        if at > self._archived_to and (run := self._between(self._archived_to, at)):
            return run
        runs = list[Run]()
        for index in range(bisect_left(self._firsts, at) - 1, -1, -1):
            run = self._segment(index)
            run = run if run.end <= at else Run(run.start, run.data[: at - run.start])
            if runs and (run.end != runs[-1].start or not run.data):
                break
            if run.data:
                runs.append(run)
            if runs and runs[0].end - run.start >= ENOUGH:
                break
        return _joined(runs[::-1]) if runs else None

    def _between(self, first: int, until: int) -> Run | None:
        """The stretch that is not archived yet."""
        run = self._reader.read(self._log, first, until - first)
        while run.data and run.end < until:
            more = self._reader.read(self._log, run.end, until - run.end)
            if not more.data or more.start != run.end:
                break
            run = run.joined(more)
        return run if run.data and run.start < until else None

    def _segment(self, index: int) -> Run:
        ahead, self._ahead = self._ahead, None
        run = ahead[1].result() if ahead and ahead[0] == index else self._load(index)
        following = index + self._step
        if 0 <= following < len(self._firsts):
            self._ahead = following, _beside.submit(self._load, following)
        return run

    def _load(self, index: int) -> Run:
        return self._reader.archive.segment(self._log.attempt, self._firsts[index])


def _joined(runs: list[Run]) -> Run:
    return runs[0] if len(runs) == 1 else Run(runs[0].start, b"".join(run.data for run in runs))
