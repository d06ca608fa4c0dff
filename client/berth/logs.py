"""Follows a log over its websocket. With the last offset, a reader resumes without gaps or doubles."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from urllib.parse import quote

import msgspec
from websockets.asyncio.client import connect as connect_async
from websockets.sync.client import connect

from berth.calls import unreachable
from berth.decoding import decoded
from berth.errors import BadAnswer, LogIncomplete
from berth.model.jobs import MARK, LogRecord, LogSlice
from berth.server import Server
from berth.sockets import LOST, Closable, final_error

PATIENCE_S = 300.0
END_S, REST_PAUSE_S = 30.0, 0.5
"""How long nothing more may come of an ended task's log before its end, and how often it is asked for."""
MOST_BYTES = 1_000_000
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0
Tail = Callable[[Sequence[LogRecord]], None]
"""Receives a task's unfinished lines; they replace those received before."""
SETTLED_S = 5.0
"""A connection that lived this long was a good one, though the log was silent."""


def no_tail(records: Sequence[LogRecord]) -> None:
    """Ignores unfinished lines."""


class _Message(msgspec.Struct):
    """One message: ``records`` up to the offset ``to``; or a ``tail`` of some; or ``end``, which names the node that is
    gone with the rest, or says that the log was deleted; or ``skipped``, after which the server reads on by itself."""

    type: str
    to: int = 0
    lost: str | None = None
    deleted: str | None = None
    records: list[tuple[int, int, str]] = []


class LogCursor:
    """Position of one reader in a log, and what a lost connection means; opens and reads nothing itself.

    ``tail`` receives unfinished lines. ``offset`` moves once the reader has taken a message's records, so that it is a
    good one to resume from.
    """

    def __init__(self, server: Server, task_attempt: str, offset: int | str, patience_s: float, tail: Tail) -> None:
        self._tail = tail
        self.server, self.task_attempt = server, task_attempt
        self.offset: int | str = offset
        self.over = False
        self._patience_s = patience_s
        self._next: int | str = offset
        self._failures = 0
        self._lost_at: float | None = None
        self._opened_at: float | None = None

    @property
    def address(self) -> str:
        """Where the log goes on."""
        return self.server.socket_url(f"/ws/logs/{quote(self.task_attempt)}?offset={self.offset}")

    def opened(self) -> None:
        """Notes that there is a connection."""
        self._opened_at = time.monotonic()

    def take(self, text: str | bytes) -> list[LogRecord]:
        """The records of a message; ``taken`` follows when they are read. Raises BadAnswer."""
        try:
            message = decoded(text, _Message)
        except msgspec.DecodeError as error:
            raise BadAnswer(f"the log's websocket said something else than records: {error}") from error
        self._failures, self._lost_at = 0, None
        self.over = message.type == "end"
        if self.over and message.lost:
            text = f"… the rest of this log was lost with node {message.lost}\n"
            return [LogRecord(time.time_ns() // 1_000_000, MARK, text)]
        if self.over and message.deleted:
            return [LogRecord(time.time_ns() // 1_000_000, MARK, message.deleted)]
        if message.type == "tail":
            self._tail([LogRecord(*record) for record in message.records])
        if message.type != "records":
            return []
        self._next = message.to
        return [LogRecord(*record) for record in message.records]

    def taken(self) -> None:
        """Notes that the last message's records are read."""
        self.offset = self._next

    def lost(self, error: Exception) -> float:
        """Seconds until the next try. Raises BerthError where a retry makes no sense."""
        now = time.monotonic()
        if self._opened_at is not None and now - self._opened_at > SETTLED_S:
            self._failures, self._lost_at = 0, None
        self._opened_at = None
        final = final_error(error, self.server.url, "log")
        if final is not None:
            raise final from error
        self._lost_at = now if self._lost_at is None else self._lost_at
        if now - self._lost_at > self._patience_s:
            raise unreachable(self.server.url, error) from error
        pause: float = min(FIRST_PAUSE_S * 2.0**self._failures, LONGEST_PAUSE_S)
        self._failures += 1
        return pause * (0.5 + random.random())


class LogRemainder:
    """The rest of an ended task's log from ``offset`` on; asks nothing itself. ``over`` once it has come."""

    def __init__(self, offset: int, patience_s: float) -> None:
        self.offset, self.over = offset, False
        self._patience_s, self._moved_at = patience_s, time.monotonic()

    def take(self, piece: LogSlice) -> float:
        """Seconds until the next request. Raises LogIncomplete where nothing has come for too long."""
        now = time.monotonic()
        self.over = piece.complete
        if piece.next_offset > self.offset or piece.records:
            self.offset, self._moved_at = piece.next_offset, now
            return 0
        if not self.over and now - self._moved_at >= self._patience_s:
            raise LogIncomplete(self.offset, self._patience_s)
        return 0 if self.over else REST_PAUSE_S


class LogFollow:
    """The records of a log as they come, until it has ended. ``offset`` is where to resume after all that was read."""

    def __init__(self, cursor: LogCursor) -> None:
        self._cursor = cursor

    @property
    def offset(self) -> int | str:
        """The offset to resume from."""
        return self._cursor.offset

    def __iter__(self) -> Iterator[LogRecord]:
        cursor = self._cursor
        while not cursor.over:
            try:
                with connect(cursor.address, **cursor.server.socket(), create_connection=Closable) as socket:
                    cursor.opened()
                    while not cursor.over:
                        yield from cursor.take(socket.recv())
                        cursor.taken()
            except LOST as error:
                time.sleep(cursor.lost(error))


class AsyncLogFollow:
    """The same for ``async for``."""

    def __init__(self, cursor: LogCursor) -> None:
        self._cursor = cursor

    @property
    def offset(self) -> int | str:
        """The offset to resume from."""
        return self._cursor.offset

    async def __aiter__(self) -> AsyncIterator[LogRecord]:
        cursor = self._cursor
        while not cursor.over:
            try:
                async with connect_async(cursor.address, **cursor.server.socket()) as socket:
                    cursor.opened()
                    while not cursor.over:
                        for record in cursor.take(await socket.recv()):
                            yield record
                        cursor.taken()
            except LOST as error:
                await asyncio.sleep(cursor.lost(error))
