"""Websockets of logs. ``/ws/logs/<task attempt id>?offset=N|tail``: one, live. ``/ws/jobs/<id>/logs``: several.

To the browser: ``{"type": "records", "from": o, "to": o2, "records": [[time in ms, stream (1 output, 2 errors,
3 Berth's own), text], …]}``, ``{"type": "end", "offset": o, "state": …, "lost": null}`` once the log is complete, and
``{"type": "skipped", "offset": o}`` to a viewer too slow for the live feed, which then reads on by itself from ``o``.
``{"type": "tail", "records": […]}`` has what was printed so far of unfinished lines (at most 4 kB of each stream; after
a carriage return, what follows the last one), or nothing: it replaces the previous tail, and records of a stream
replace its part of the tail.
``lost`` names the server that is gone with the rest; should it come back, ``records``, ``{"type": "open"}`` or another
``end`` follow. For a deleted log ``end`` has ``deleted``: a line that says so, and why.
From the browser: ``{"type": "seek", "offset": n}``. Each ``to`` is a valid ``offset`` to reconnect with.

Several logs (``?attempt=N``: those of the job's attempt, including tasks that start later; ``?log=<task attempt>``,
repeatable: the chosen ones) each open at their end, and every message names its log in ``log``. First, and whenever one
is added, comes ``{"type": "tasks", "tasks": [{"log": …, "name": "worker/3"}, …]}``; ``{"log": …, "type": "live"}`` says
that the part with which a log opened is there, and what follows is new. The browser's ``seek`` names its ``log``;
``{"type": "earlier", "before": {log: offset}}`` is answered by ``{"type": "earlier", "logs": [{"log": …, "from": …,
"records": […]}, …]}``: the records before, of each log as far back as all reach.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async
from django.conf import settings
from django.utils import timezone
from redis import RedisError

from portal.accounts.websockets import CLOSED_NOT_VISIBLE, SignedInConsumer
from portal.common.errors import NotFound
from portal.jobs.models import TaskAttempt
from portal.jobs.selectors.runs import LOGS_TOGETHER, run_name, runs_together
from portal.jobs.selectors.visible import job_get, task_attempt_visible
from portal.jobs.services.read_audit import log_read, logs_read
from portal.logs.archiver import archiver, log_of
from portal.logs.ending import gone_line, log_archived, log_gone, log_lost_with
from portal.logs.hub import Hub, LogEnd
from portal.logs.reader import LogReader
from portal.logs.stream import LogOf
from portal.logs.text import TextDecoder, records_message
from portal.logs.viewer import Viewer

MOST_OFFSET = 10**18
TAILS, MOST_TAIL, LEAST_TAIL = 2 << 20, 512 * 1024, 16 * 1024
"""Bytes before their ends at which several logs open: of all together, and of each at most and at least."""

_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


class LogConsumer(SignedInConsumer):
    """One viewer of one log. The URL's ``attempt`` names the log."""

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
        """The log, if this user may see it; opening another user's log is audited."""

        def look() -> LogOf | None:
            try:
                attempt = task_attempt_visible(self.user, self.scope["url_route"]["kwargs"]["attempt"])
            except NotFound:
                return None
            if first:
                log_read(user=self.user, attempt=attempt, now=timezone.now())
            return log_of(attempt)

        return await database_sync_to_async(look)()


class LogsConsumer(SignedInConsumer):
    """One viewer of several logs of a job: its own position in each, on the feeds that all viewers share."""

    weight = 10

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._followed: dict[str, Followed] = {}

    async def opened(self) -> None:
        runs = await self._visible(first=True)
        await self.agree()
        if runs is None:
            await self.close(CLOSED_NOT_VISIBLE)
            return
        await self._follow(runs)

    async def closed(self) -> None:
        for one in self._followed.values():
            if one.task is not None:
                one.task.cancel()

    async def rechecked(self) -> None:
        runs = await self._visible()
        if runs is None:
            await self.close(CLOSED_NOT_VISIBLE)
        else:
            await self._follow(runs)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        message = _message(text_data)
        if message.get("type") == "earlier" and isinstance(message.get("before"), dict):
            await self._look_back(message["before"])
        elif (offset := _sought(text_data)) is not None and (one := self._followed.get(str(message.get("log")))):
            one.viewer.seek(offset)

    async def _look_back(self, before: dict[str, Any]) -> None:
        known = {one.source: before[log] for log, one in self._followed.items() if isinstance(before.get(log), int)}
        try:
            wanted = {log: min(offset, MOST_OFFSET) for log, offset in known.items()}
            runs = await _hub().earlier(wanted, self.user.pk)
        except (OSError, RedisError):
            runs = {}  # the browser retries
        parts = (
            f'{{"log": "{log.attempt}", {records_message(run, TextDecoder(), expected=run.start)[1:]}'
            for log, run in runs.items()
        )
        await self.send('{"type": "earlier", "logs": [' + ", ".join(parts) + "]}")

    async def _follow(self, runs: list[TaskAttempt]) -> None:
        """Starts to follow those that are not followed yet."""
        tail = min(MOST_TAIL, max(LEAST_TAIL, TAILS // max(1, len(runs))))
        new = {str(run.pk): self._followed_of(run, tail) for run in runs if str(run.pk) not in self._followed}
        if not new and self._followed:
            return
        self._forget({str(run.pk) for run in runs})
        self._followed |= new
        tasks = [{"log": log, "name": one.name} for log, one in self._followed.items()]
        await self.send(json.dumps({"type": "tasks", "tasks": tasks}))
        for one in new.values():
            one.task = asyncio.create_task(one.viewer.run())

    def _forget(self, wanted: set[str]) -> None:
        """Stops following older runs of tasks that have run again, as far as the limit requires."""
        old = [log for log in self._followed if log not in wanted]
        for log in old[: max(0, len(self._followed.keys() | wanted) - LOGS_TOGETHER)]:
            one = self._followed.pop(log)
            if one.task is not None:
                one.task.cancel()

    def _followed_of(self, run: TaskAttempt, tail: int) -> Followed:
        source = log_of(run)
        label = f'{{"log": "{source.attempt}", '

        async def send(text: str) -> None:
            """Sends the message made once for all viewers, prefixed with its log."""
            await self.send(label + text[1:])

        async def joined() -> None:
            await self.send(label + '"type": "live"}')

        return Followed(run_name(run), source, Viewer(_hub(), source, send, None, tail, joined))

    async def _visible(self, *, first: bool = False) -> list[TaskAttempt] | None:
        """The runs to follow now, if this user may see the job; opening another user's logs is audited."""
        query = parse_qs(self.scope["query_string"].decode(errors="replace"))
        chosen = {key for text in query.get("log", ()) if (key := _uuid(text))}

        def look() -> list[TaskAttempt] | None:
            try:
                job = job_get(user=self.user, job_id=self.scope["url_route"]["kwargs"]["job"])
            except NotFound:
                return None
            if first:
                logs_read(user=self.user, job=job, now=timezone.now())
            return runs_together(job=job, attempt=_whole(query.get("attempt", [""])[-1]), chosen=chosen)

        return await database_sync_to_async(look)()


@dataclass(slots=True)
class Followed:
    """One of several logs, and this viewer's position in it."""

    name: str
    source: LogOf
    viewer: Viewer
    task: asyncio.Task[None] | None = None


def _hub() -> Hub:
    """The hub of this process: one for each event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        one = archiver()
        _hubs[loop] = Hub(LogReader(one.archive, one.redis), settings.REDIS_URL, _ended)
    return _hubs[loop]


@database_sync_to_async
def _ended(source: LogOf) -> LogEnd:
    row = TaskAttempt.objects.select_related("node", "task__job").only(*_STANDING).get(pk=source.attempt)
    if gone := log_gone(row.task.job, now=timezone.now()):
        return LogEnd(complete=True, offset=0, state=row.state, deleted=gone_line(gone))
    return LogEnd(
        complete=row.log_complete,
        offset=row.log_end,
        state=row.state,
        archived=log_archived(row),
        lost=log_lost_with(row),
    )


_STANDING = (
    *("log_complete", "log_end", "archived_to", "state", "lost_at"),
    *("node__name", "node__health", "node__removed_at"),
    *("task__job__ended_at", "task__job__logs_dropped_at"),
)


def _offset(query: bytes) -> int | None:
    """The requested offset; None for the log's end, also if the query is malformed."""
    text = parse_qs(query.decode(errors="replace")).get("offset", ["tail"])[-1]
    if not (text.isdecimal() and text.isascii()):
        return None
    return int(text) if len(text) < len(str(MOST_OFFSET)) else MOST_OFFSET


def _sought(text: str | None) -> int | None:
    """The offset in a seek message; None for any other message."""
    message = _message(text)
    offset = message.get("offset") if message.get("type") == "seek" else None
    return min(offset, MOST_OFFSET) if isinstance(offset, int) and offset >= 0 else None


def _message(text: str | None) -> dict[str, Any]:
    """The browser's message; empty if it is no JSON object."""
    try:
        message = json.loads(text or "")
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else None
