"""Live logs in one web process: each log is read once for all its viewers, and positions are offsets.

A viewer first reads history by itself. Once it has reached the log's feed it joins it, and gets messages that are made
once for all. One that cannot keep up goes back to reading by itself.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import redis.asyncio
from redis import RedisError

from nodes.protocol.names import WAKE_CHANNEL
from portal.common.shared_calls import SharedCalls
from portal.logs.reader import LogReader
from portal.logs.records import Run
from portal.logs.stream import LogOf
from portal.logs.text import TextDecoder, rows_message, tail_message, text_rows
from portal.logs.together import earlier

MESSAGE = 64 * 1024
"""Bytes of log in one message at most."""
WAITING = 64
"""Messages queued for one viewer at most."""
SILENCE_S = 1.0
"""A feed polls after so long without a hint: hints may be lost."""
ENDED_S = 60.0
"""The same for a log that has ended."""
PACE_S = 0.02
"""Least time between two reads of a feed, so that small lines are batched."""
RETRY_S = 1.0
READERS = 8
OPENING_S = 1.0
"""Viewers who open a log within this time share one look-up of its end."""
READ_S, READS = 10.0, 64
"""How long, and how many, pieces of history are cached for followers; records never change."""

NO_TAIL = tail_message([])

Answer = TypeVar("Answer")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The state of a log: ``complete`` once nothing is added, ``offset`` its end then, ``archived`` once all up to
    there is; ``state`` is the task attempt's; ``lost``: the server, if any, that is gone with what it has not sent;
    ``deleted``: the line in place of a deleted log."""

    complete: bool
    offset: int
    state: str
    archived: bool = False
    lost: str = ""
    deleted: str = ""

    @property
    def message(self) -> str:
        told = {"type": "end", "offset": self.offset, "state": self.state, "lost": self.lost or None}
        return json.dumps(told | ({"deleted": self.deleted} if self.deleted else {}))


@dataclass(frozen=True, slots=True)
class Piece:
    """A message for all viewers of a feed, with the offset and the decoder's state after it."""

    text: str
    end: int
    decoder: TextDecoder


@dataclass(frozen=True, slots=True)
class RestLost:
    """Takes the place of the pieces up to ``end``, the log's end, that the archive no longer has: somebody deleted
    them, or a disk failed."""

    end: int


Told = Piece | RestLost | LogEnd | None
Ended = Callable[[LogOf], Awaitable[LogEnd]]


class Seat:
    """A viewer's queue at a feed. ``pieces`` is bounded; on overflow ``skipped`` is set and the seat is lost."""

    def __init__(self) -> None:
        self.pieces: asyncio.Queue[Told] = asyncio.Queue(WAITING)
        self.skipped = False

    def put(self, piece: Told) -> bool:
        """Queues a piece, or None to wake the viewer; False if the seat is lost."""
        try:
            self.pieces.put_nowait(piece)
        except asyncio.QueueFull:
            self.skipped = True
        return not self.skipped


class Feed:
    """One log from ``offset`` on, read as it grows, for all its seats. Ends with its last seat."""

    def __init__(self, hub: Hub, source: LogOf, offset: int, decoder: TextDecoder) -> None:
        self._hub, self._source = hub, source
        self.offset, self.decoder = offset, decoder.copy()
        self._seats: set[Seat] = set()
        self._rest_lost = False
        self._ended: LogEnd | None = None
        self._behind: dict[int, int] = {}
        """By stream the end of its last records: unfinished lines from before that are outdated."""
        self._tail, self._tail_due = NO_TAIL, True
        self._woken = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    def wake(self, *, tail: bool = False) -> None:
        """Notes that something is new; ``tail``: only lines without an end yet."""
        self._tail_due |= tail
        self._woken.set()

    def take_seat(self, offset: int) -> Seat | None:
        """A seat for a viewer who has read up to ``offset``; None if the feed is at another offset."""
        if offset != self.offset and not (self._rest_lost and offset < self.offset):
            return None
        seat = Seat()
        self._seats.add(seat)
        if offset < self.offset:
            seat.put(RestLost(self.offset))
        if self._tail not in (NO_TAIL, ""):
            seat.put(self._provisional(self._tail))
        if self._ended is not None:
            seat.put(self._ended)
        return seat

    def leave(self, seat: Seat) -> None:
        self._seats.discard(seat)
        if not self._seats:
            self._task.cancel()
            self._hub.forget(self._source, self)

    async def _run(self) -> None:
        while True:
            try:
                if not await self._read() or self._ended is not None:
                    await self._look_for_end()
                await self._look_at_tail()
            except Exception as error:  # Redis, database or disk: viewers wait, and the feed resumes
                log.warning("log of %s cannot be read now: %r", self._source.attempt, error)
                await asyncio.sleep(RETRY_S)
            try:
                await asyncio.wait_for(self._woken.wait(), SILENCE_S if self._ended is None else ENDED_S)
            except TimeoutError:
                self._tail_due = True
            self._woken.clear()
            await asyncio.sleep(PACE_S)

    async def _read(self) -> bool:
        """Sends everything new to the viewers; returns whether there was anything."""
        found = False
        while True:
            run = await self._hub.read_now(self._source, self.offset, MESSAGE)
            if not run.data or run.end <= self.offset:
                return found
            found = True
            rows = text_rows(run, self.decoder, expected=self.offset)
            text = rows_message(min(run.start, self.offset), run.end, rows)
            self._behind.update(dict.fromkeys({stream for _, stream, _ in rows}, run.end))
            self._tail = "" if self._tail != NO_TAIL else NO_TAIL
            self.offset = run.end
            self._tell(Piece(text, run.end, self.decoder.copy()))

    async def _look_at_tail(self) -> None:
        """Sends unfinished lines if they changed, or if records came, which replace them in the viewers."""
        if not self._tail_due:
            return
        self._tail_due = False
        run = await self._hub.unfinished(self._source) if self._ended is None else Run(0, b"")
        rows = [row for row in text_rows(run, TextDecoder()) if run.start >= self._behind.get(row[1], 0)]
        if (text := tail_message(rows)) != self._tail:
            self._tail = text
            self._tell(self._provisional(text))

    def _provisional(self, text: str) -> Piece:
        return Piece(text, self.offset, self.decoder.copy())

    async def _look_for_end(self) -> None:
        """Checks whether the log has ended, once all there is was read. A lost server may come back with more."""
        if self._ended is not None and not self._ended.lost:
            return
        end, before = await self._hub.ended(self._source), self._ended
        if end.archived and self.offset < end.offset and not await self._read():
            self.offset, self._rest_lost = end.offset, True
            self._tell(RestLost(end.offset))
        if end.complete and self.offset >= end.offset:
            self._ended = replace(end, lost="")
        elif end.lost:
            self._ended = replace(end, offset=self.offset)
        else:
            self._ended = None
        if self._ended is not None and self._ended != before:
            if self._tail not in (NO_TAIL, ""):
                self._tell(self._provisional(NO_TAIL))
            self._tail = NO_TAIL
            self._tell(self._ended)
        elif self._ended is None and before is not None:
            text = json.dumps({"type": "open", "offset": self.offset})
            self._tell(Piece(text, self.offset, self.decoder.copy()))

    def _tell(self, piece: Told) -> None:
        self._seats = {seat for seat in self._seats if seat.put(piece)}


class Hub:
    """All feeds of this process, and their one subscription to hints. ``ended`` looks up a log's state."""

    def __init__(self, reader: LogReader, redis_url: str, ended: Ended) -> None:
        self._reader, self._redis_url, self.ended = reader, redis_url, ended
        self._feeds: dict[str, Feed] = {}
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="log-reader")
        self._listener: asyncio.Task[None] | None = None
        self._closed = False
        self._tails = SharedCalls[int](for_s=OPENING_S, most=READS)
        self._reads = SharedCalls[Run](for_s=READ_S, most=READS, worth=lambda run: bool(run.data))
        self._looks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self._looking = asyncio.Semaphore(READERS // 2)

    async def read_now(self, source: LogOf, offset: int, limit: int) -> Run:
        """Runs ``LogReader.read`` in a thread."""
        return await self._call(self._reader.read, source, offset, limit)

    async def read(self, source: LogOf, offset: int, limit: int) -> Run:
        """The same, shared by all who ask at about the same time: it may lack the newest records."""
        return await self._reads.get((source, offset, limit), lambda: self.read_now(source, offset, limit))

    async def unfinished(self, source: LogOf) -> Run:
        """Runs ``LogReader.unfinished`` in a thread."""
        return await self._call(self._reader.unfinished, source)

    async def boundary(self, source: LogOf, offset: int) -> int:
        """Runs ``LogReader.boundary`` in a thread."""
        return await self._call(self._reader.boundary, source, offset)

    async def tail(self, source: LogOf, size: int) -> int:
        """Runs ``LogReader.tail`` in a thread, shared by all who ask within a second."""
        return await self._tails.get((source, size), lambda: self._call(self._reader.tail, source, size))

    async def earlier(self, before: Mapping[LogOf, int], whose: int) -> dict[LogOf, Run]:
        """Runs ``earlier`` in a thread: one call per user at a time, and overall few enough to leave threads for live
        logs."""
        own = self._looks[whose] = self._looks.get(whose) or asyncio.Lock()
        async with own, self._looking:
            return await self._call(earlier, self._reader, before)

    async def _call(self, what: Callable[..., Answer], *arguments: Any) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._threads, what, *arguments)

    def feed_offset(self, source: LogOf) -> int | None:
        """The offset that the log's feed has reached; None if nobody watches it."""
        feed = self._feeds.get(source.attempt)
        return None if feed is None else feed.offset

    def join(self, source: LogOf, offset: int, decoder: TextDecoder) -> tuple[Feed, Seat] | None:
        """A seat at the log's feed for a viewer who has read up to ``offset``; None if the feed is elsewhere."""
        if self._listener is None or self._listener.done():
            self._listener = asyncio.create_task(self._listen())
        feed = self._feeds.get(source.attempt)
        if feed is None:
            feed = self._feeds[source.attempt] = Feed(self, source, offset, decoder)
        seat = feed.take_seat(offset)
        return None if seat is None else (feed, seat)

    def forget(self, source: LogOf, feed: Feed) -> None:
        """Drops a feed; called by the feed when its last seat is left."""
        if self._feeds.get(source.attempt) is feed:
            del self._feeds[source.attempt]

    async def close(self) -> None:
        """Stops listening for hints. Viewers are ended by their owners."""
        self._closed = True
        if self._listener is not None:
            await asyncio.wait([self._listener])
        self._threads.shutdown(wait=False)

    async def _listen(self) -> None:
        while not self._closed:
            try:
                async with redis.asyncio.Redis.from_url(self._redis_url) as client, client.pubsub() as hints:
                    await self._hear(hints)
            except (RedisError, OSError) as error:
                log.warning("log hints not heard, again in %s s: %s", RETRY_S, error)
                await asyncio.sleep(RETRY_S)

    async def _hear(self, hints: Any) -> None:
        await hints.subscribe(WAKE_CHANNEL)
        for feed in self._feeds.values():
            feed.wake()
        while not self._closed:
            message = await hints.get_message(ignore_subscribe_messages=True, timeout=SILENCE_S)
            if message is not None:
                self._hint(message["data"])

    def _hint(self, data: Any) -> None:
        attempt, _, what = data.partition(b" ") if isinstance(data, bytes) else (b"", b"", b"")
        feed = self._feeds.get(attempt.decode(errors="replace"))
        if feed is not None:
            feed.wake(tail=what == b"tail")
