"""Long answers, piece by piece."""

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
"""Each has a thread of its own that waits for what is sent and for who reads it."""

AHEAD = 2
"""So many chunks tell whether there is more than one."""


async def aside(chunks: Iterator[bytes], begun: Sequence[bytes] = ()) -> AsyncIterator[bytes]:
    """Each chunk read in a thread, behind those that were read already: the whole is never in memory, and its reader
    never holds the event loop. A generator is closed with the answer, also where nobody reads that to its end."""
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
    """A long answer. While it is sent ``still`` is asked again and again whether who asked for it still may; where not,
    it is broken off, so that nobody takes what they have for the whole."""

    def __init__(self, chunks: AsyncIterator[bytes], *, still: Callable[[], bool], **answer: Any) -> None:
        super().__init__(chunks, **answer)
        # In no thread that waits for the next chunk.
        self.asked = database_sync_to_async(still, thread_sensitive=False)


class Download(Streamed):
    """A long answer that holds a seat of ``DOWNLOADS`` until it is sent, and breaks off when the seat's time is over.
    ``let_go`` is called at its end, also where nothing of it was read.

    ``ahead``: its beginning is read at once, in the thread of the request, so that a short one needs no other; what
    that raises is raised here.
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
