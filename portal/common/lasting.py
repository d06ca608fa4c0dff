"""What goes on for long, a download or a websocket, is asked again and again whether it still may."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

RECHECK_S = 4.0
UNASKED_S = 30.0
"""So long it goes on while nobody can be asked whether it still may."""


async def until_lost(ask: Callable[[], Awaitable[bool]]) -> bool:
    """Ask every ``RECHECK_S`` seconds, and return as soon as it may not go on: True where that was the answer, False
    where nobody could be asked for ``UNASKED_S``. Nothing that fails ends the asking, or what is watched would go on
    however its rights end: the database may restart just as it is asked."""
    clock = asyncio.get_running_loop().time
    asked_at = clock()
    while True:
        await asyncio.sleep(RECHECK_S)
        try:
            async with asyncio.timeout(max(RECHECK_S, asked_at + UNASKED_S - clock())):
                if not await ask():
                    return True
            asked_at = clock()
        except Exception:
            log.exception("whether a download or a websocket may go on could not be asked")
            if clock() - asked_at >= UNASKED_S:
                return False
