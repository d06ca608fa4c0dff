"""Long answers, piece by piece."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async


async def aside(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Each chunk read in a thread: the whole is never in memory, and its reader never holds the event loop."""
    take = sync_to_async(lambda: next(chunks, None))
    while (chunk := await take()) is not None:
        yield chunk
