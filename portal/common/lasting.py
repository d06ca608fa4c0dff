"""Rechecks permission during long-lived work such as a download or a websocket."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

RECHECK_S = 4.0
UNASKED_S = 30.0
"""How long such work goes on while permission cannot be checked."""


async def until_lost(ask: Callable[[], Awaitable[bool]]) -> bool:
    """Calls ``ask`` every ``RECHECK_S`` seconds and returns once permission is gone: True if ``ask`` said so, False if
    it failed for ``UNASKED_S``. A single failure does not end the loop (the database may just be restarting), or the
    watched work would go on unchecked."""
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
