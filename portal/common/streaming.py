"""Long answers, piece by piece."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator

from asgiref.sync import sync_to_async


async def aside(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Each chunk read in a thread: the whole is never in memory, and its reader never holds the event loop. A generator
    is closed with the answer, also where nobody reads that to its end."""
    take = sync_to_async(lambda: next(chunks, None))
    try:
        while (chunk := await take()) is not None:
            yield chunk
    finally:
        if isinstance(chunks, Generator):
            await sync_to_async(chunks.close)()
