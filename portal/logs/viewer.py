"""One browser's way through one log: history by itself, then along with the log's feed."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable

from portal.logs.hub import MESSAGE, RETRY_S, Feed, Hub, LogEnd, RestLost, Seat
from portal.logs.stream import LogOf
from portal.logs.text import TextDecoder, lost_message, records_message

TAIL = 64 * 1024
"""Bytes before the end at which a log opens, if it opens at its end."""
NEAR_S = 0.02
"""Pause while the feed catches up with the viewer."""

log = logging.getLogger(__name__)


class Viewer:
    """Sends a log from ``offset`` on (None: from ``tail`` bytes before its end) until cancelled.

    ``send`` takes one JSON text and may wait: history is read no faster than it is taken. Records that end before
    ``offset`` are never sent, even if the log's end lies before it for a while: Redis has lost what a returning browser
    has read, and its node sends it again. ``joined`` is called each time that what follows is new.
    """

    def __init__(
        self,
        hub: Hub,
        source: LogOf,
        send: Callable[[str], Awaitable[None]],
        offset: int | None,
        tail: int = TAIL,
        joined: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._hub, self._source, self._send, self._joined = hub, source, send, joined
        self._tail_size = tail
        self._wanted: int | None = offset
        self._tail = offset is None
        self._offset, self._from, self._decoder = 0, 0, TextDecoder()
        self._seat: Seat | None = None

    def seek(self, offset: int) -> None:
        """Continues from another offset, rounded down to a record boundary."""
        self._wanted = offset
        if self._seat is not None:
            self._seat.put(None)

    async def run(self) -> None:
        while True:
            try:
                await self._go_where_wanted()
                await self._watch(*await self._catch_up())
            except Exception as error:  # Redis or disk: resumes from what the browser has
                log.warning("log of %s cannot be shown now: %r", self._source.attempt, error)
                await asyncio.sleep(RETRY_S)

    async def _go_where_wanted(self) -> None:
        if self._tail:
            self._offset = await self._hub.tail(self._source, self._tail_size)
            self._tail = False
        while self._wanted is not None:
            wanted = self._wanted
            self._offset, self._decoder = await self._hub.boundary(self._source, wanted), TextDecoder()
            self._from = wanted
            if self._wanted == wanted:
                self._wanted = None

    async def _catch_up(self) -> tuple[Feed, Seat]:
        """Sends history up to the feed's offset, and returns a seat there."""
        self._decoder = self._decoder.copy()
        while True:
            await self._go_where_wanted()
            ahead = self._hub.feed_offset(self._source)
            behind = MESSAGE if ahead is None else min(MESSAGE, ahead - self._offset)
            if behind > 0 and await self._send_history(behind):
                continue
            joined = self._hub.join(self._source, self._offset, self._decoder)
            if joined is not None:
                return joined
            await asyncio.sleep(NEAR_S)

    async def _send_history(self, limit: int) -> bool:
        """Sends one message of history, unless it lies before the wanted offset; False at the end."""
        run = await self._hub.read(self._source, self._offset, limit)
        if not run.data:
            return False
        new = run.after(self._from) if self._offset < self._from else run
        text = None
        if new.data:
            expected = max(self._offset, min(self._from, new.start))
            text = records_message(new, self._decoder, expected=expected)
        self._offset = run.end
        if text is not None:
            await self._send(text)
        return True

    async def _watch(self, feed: Feed, seat: Seat) -> None:
        """Forwards the feed's pieces, until the viewer seeks or was too slow."""
        self._seat = seat
        try:
            if self._joined is not None:
                await self._joined()
            while self._wanted is None and not (seat.skipped and seat.pieces.empty()):
                await self._pass_on(seat)
        finally:
            self._seat = None
            feed.leave(seat)
        if seat.skipped and self._wanted is None:
            await self._send(json.dumps({"type": "skipped", "offset": self._offset}))

    async def _pass_on(self, seat: Seat) -> None:
        piece = await seat.pieces.get()
        if isinstance(piece, LogEnd):
            await self._send(piece.message)
        elif isinstance(piece, RestLost):
            start, self._offset = max(self._offset, self._from), piece.end
            if start < piece.end:
                await self._send(lost_message(start, piece.end))
        elif piece is not None and self._offset < self._from < piece.end:
            self._wanted = self._from  # the feed's message is the same for all; history can be cut
        elif piece is not None:
            if self._offset >= self._from:
                await self._send(piece.text)
            self._offset, self._decoder = piece.end, piece.decoder
