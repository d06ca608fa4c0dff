"""Reads one log from its first byte to its newest, whether archived or still in Redis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from redis import Redis, RedisError

from nodes.protocol.logs import MARK
from portal.logs.archive_store import Archive
from portal.logs.records import Row, Run, lost, rows_told
from portal.logs.stream import ForgedEntry, LogOf, read_stream, read_tail, stream_end

CHUNK = 256 * 1024


@dataclass(frozen=True, slots=True)
class LogReader:
    """Reads by offset. Every offset it returns is a record boundary; any other is rounded down to one."""

    archive: Archive
    redis: Redis

    def read(self, log: LogOf, offset: int, limit: int) -> Run:
        """Records from ``offset`` on: about ``limit`` bytes, at least one record; empty at the end.

        Begins beyond ``offset`` only if bytes are lost. Raises redis.RedisError if they are not archived and Redis does
        not answer.
        """
        try:
            fresh = read_stream(self.redis, log, offset, limit)
        except ForgedEntry:
            fresh = Run(offset, b"")  # the archiver drops and counts it
        except RedisError:
            archived = self.archive.read(log.attempt, offset, limit)
            if not archived.data:
                raise
            return archived
        if fresh.data and fresh.start <= offset:
            return fresh
        archived = self.archive.read(log.attempt, offset, limit)
        found = [run for run in (archived, fresh) if run.data]
        return min(found, key=lambda run: run.start) if found else Run(offset, b"")

    def unfinished(self, log: LogOf) -> Run:
        """The result of ``read_tail``; empty while Redis does not answer."""
        try:
            return read_tail(self.redis, log)
        except RedisError:
            return Run(0, b"")

    def unfinished_behind(self, log: LogOf, end: int) -> list[Row]:
        """Unfinished lines for a reader up to ``end``: none if they follow a later record, and none of a stream that
        got a record since they were sent."""
        run = self.unfinished(log)
        if not run.data or run.start > end:
            return []
        since = {stream for rows in self.pieces(log, run.start, end) for _, stream, _ in rows}
        return [row for row in run.rows() if row[1] not in since]

    def end(self, log: LogOf) -> int:
        """End offset of the newest record known; of the archived part while Redis does not answer.

        Raises redis.RedisError if nothing is archived either.
        """
        archived = self.archive.end(log.attempt)
        try:
            return max(stream_end(self.redis, log) or 0, archived)
        except RedisError:
            if not archived:
                raise
            return archived

    def boundary(self, log: LogOf, offset: int) -> int:
        """The last record boundary not beyond ``offset``; the log's end if ``offset`` is beyond that, ``offset`` itself
        in a gap."""
        run = self.read(log, offset, 1)
        return min(run.start, offset) if run.data else min(offset, self.end(log))

    def tail(self, log: LogOf, size: int) -> int:
        """A record boundary about ``size`` bytes before the end."""
        return self.boundary(log, max(0, self.end(log) - size))

    def pieces(self, log: LogOf, offset: int, end: int, size: int = CHUNK) -> Iterator[Iterator[Row]]:
        """Rows between two offsets, in pieces of about ``size`` bytes. Where bytes are lost, a line of Berth's own says
        how many; at the end only as far as was archived, since the rest may still come."""
        run = Run(offset, b"")
        while offset < end:
            more = self.read(log, offset, size).until(end)
            if not more.data:
                break
            yield rows_told(more, offset)
            run, offset = more, more.end
        kept = min(end, self.archive.end(log.attempt))
        if offset < kept:
            yield iter([lost(max((time_ns for time_ns, _, _ in run.rows()), default=0), kept - offset)])

    def download(self, log: LogOf, last: str = "", *, end: int | None = None) -> Iterator[bytes]:
        """The whole text as of now, or up to ``end``, in chunks; lines of Berth's own stand alone. ``last`` is
        appended."""
        open_line = False
        for rows in self.pieces(log, 0, self.end(log) if end is None else end):
            text = bytearray()
            for _, stream, payload in rows:
                if stream == MARK and open_line:
                    text += b"\n"
                text += payload
                open_line = not payload.endswith(b"\n") if payload else open_line
            yield bytes(text)
        if last:
            yield (b"\n" if open_line else b"") + last.encode()
