"""Streamed responses, such as downloads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from itertools import islice
from typing import Any
from weakref import finalize

from asgiref.sync import sync_to_async
from channels.db import database_sync_to_async
from django.conf import settings
from django.http import StreamingHttpResponse
from django.utils.translation import gettext_noop

from portal.common.shares import Seat, Share

DOWNLOADS = Share(
    each=lambda: settings.DOWNLOADS_PER_USER,
    overall=64,
    lasts_s=lambda: settings.DOWNLOAD_HOURS * 3600,
    own=gettext_noop("You have %(most)s downloads under way already. Wait until one of them is through."),
    full=gettext_noop("Too many downloads are under way now. Try again in a while."),
)
"""Limits downloads: each holds a thread that waits for its data and its reader."""

AHEAD = 2
"""Chunks to read in advance; a single one is the whole answer."""


async def aside(chunks: Iterator[bytes], begun: Sequence[bytes] = ()) -> AsyncIterator[bytes]:
    """Yields chunks read in a worker thread, after those read already: the whole is never in memory, and the event loop
    never blocks. Closes a generator with the response, also if it was not read to its end."""
    take = sync_to_async(lambda: next(chunks, None))
    try:
        for one in begun:
            yield one
        while (chunk := await take()) is not None:
            yield chunk
    finally:
        if isinstance(chunks, Generator):
            await sync_to_async(chunks.close)()


async def _at_hand(chunks: Sequence[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


class Streamed(StreamingHttpResponse):
    """A streamed response. While it is sent, ``still`` is polled for whether the requester still may have it; if not,
    it is aborted, so that nobody takes what arrived for the whole."""

    def __init__(self, chunks: AsyncIterator[bytes], *, still: Callable[[], bool], **answer: Any) -> None:
        super().__init__(chunks, **answer)
        # Not in a thread that waits for the next chunk.
        self.asked = database_sync_to_async(still, thread_sensitive=False)


class Download(Streamed):
    """A streamed response that holds a seat of ``DOWNLOADS`` until it is sent, and aborts when the seat's time is up.
    ``let_go`` is called at its end, even if nothing was read.

    ``ahead``: read its beginning at once in the request's thread, so that a short answer needs no other; exceptions are
    raised here.
    """

    def __init__(
        self,
        chunks: Iterator[bytes],
        *,
        seat: Seat,
        still: Callable[[], bool],
        let_go: Callable[[], None] = lambda: None,
        ahead: bool = False,
        **answer: Any,
    ) -> None:
        try:
            begun = list(islice(chunks, AHEAD)) if ahead else []
        except BaseException:
            seat.give_back()
            raise
        pieces = _at_hand(begun) if ahead and len(begun) < AHEAD else aside(chunks, begun)
        super().__init__(pieces, still=lambda: not seat.over and still(), **answer)
        self._let_go = let_go
        self._left = finalize(self, seat.give_back)

    def close(self) -> None:
        super().close()
        self._let_go()
        self._left()
