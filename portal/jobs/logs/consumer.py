"""``/ws/logs/<task attempt id>?offset=N|tail``: one log, live, to a browser.

To the browser: ``{"type": "records", "from": o, "to": o2, "records": [[time in ms, stream (1 output, 2 errors,
3 Berth's own), text], …]}``, ``{"type": "end", "offset": o, "state": …}`` once nothing is added any more, and
``{"type": "skipped", "offset": o}`` to one too slow for the live feed, which then reads on by itself from ``o``.
From the browser: ``{"type": "seek", "offset": n}``. Each ``to`` is a good ``offset`` to come back with.
"""

from __future__ import annotations

import asyncio
import json
from urllib.parse import parse_qs
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async
from django.conf import settings
from django.utils import timezone

from portal.accounts.websockets import CLOSED_NOT_VISIBLE, SignedInConsumer
from portal.common.errors import NotFound
from portal.jobs.logs.archiver import archiver, log_of
from portal.jobs.logs.hub import Hub, LogEnd
from portal.jobs.logs.reader import LogReader
from portal.jobs.logs.stream import LogOf
from portal.jobs.logs.viewer import Viewer
from portal.jobs.models import TaskAttempt
from portal.jobs.selectors import task_attempt_visible
from portal.jobs.services import log_read

MOST_OFFSET = 10**18

_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


class LogConsumer(SignedInConsumer):
    """One viewer. The address's ``attempt`` names the log."""

    _viewer: Viewer
    _task: asyncio.Task[None] | None = None

    async def opened(self) -> None:
        source = await self._visible(first=True)
        await self.agree()
        if source is None:
            await self.close(CLOSED_NOT_VISIBLE)
            return
        self._viewer = Viewer(_hub(), source, self.send, _offset(self.scope["query_string"]))
        self._task = asyncio.create_task(self._viewer.run())

    async def closed(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def rechecked(self) -> None:
        if self._task is not None and await self._visible() is None:
            await self.close(CLOSED_NOT_VISIBLE)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        offset = _sought(text_data)
        if self._task is not None and offset is not None:
            self._viewer.seek(offset)

    async def _visible(self, *, first: bool = False) -> LogOf | None:
        """The log, when this user may see it; who begins to read another's is noted."""

        def look() -> LogOf | None:
            try:
                attempt = task_attempt_visible(self.user, self.scope["url_route"]["kwargs"]["attempt"])
            except NotFound:
                return None
            if first:
                log_read(user=self.user, attempt=attempt, now=timezone.now())
            return log_of(attempt)

        return await database_sync_to_async(look)()


def _hub() -> Hub:
    """This process's hub: one for each event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        one = archiver()
        _hubs[loop] = Hub(LogReader(one.archive, one.redis), settings.REDIS_URL, _ended)
    return _hubs[loop]


@database_sync_to_async
def _ended(source: LogOf) -> LogEnd:
    row = TaskAttempt.objects.only("log_complete", "log_end", "state").get(pk=source.attempt)
    return LogEnd(complete=row.log_complete, offset=row.log_end, state=row.state)


def _offset(query: bytes) -> int | None:
    """The offset asked for; None for the log's end, also where the query is none."""
    text = parse_qs(query.decode(errors="replace")).get("offset", ["tail"])[-1]
    return min(int(text), MOST_OFFSET) if text.isdecimal() and text.isascii() else None


def _sought(text: str | None) -> int | None:
    """The offset of a seek message; None for any other."""
    try:
        message = json.loads(text or "")
    except ValueError:
        return None
    offset = message.get("offset") if isinstance(message, dict) and message.get("type") == "seek" else None
    return min(offset, MOST_OFFSET) if isinstance(offset, int) and offset >= 0 else None
