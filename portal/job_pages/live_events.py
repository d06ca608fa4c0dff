"""``/ws/events``: sends changes live to the users they concern."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

from channels.db import database_sync_to_async

from portal.accounts.websockets import SignedInConsumer
from portal.common.live import GROUP
from portal.teams.selectors.visible import JobSight, job_sight

MOST_WAITING = 256


class EventsConsumer(SignedInConsumer):
    """Sends ``{"kind": "job", "id": …, "vc": …, "user": …}``, ``{"kind": "node", "name": …}``, ``{"kind": "queue"}``
    and, to a browser too slow to take all, ``{"kind": "skipped"}``: read the rows again."""

    sight: JobSight
    skipped = False
    _sender: asyncio.Task[None] | None = None

    async def opened(self) -> None:
        self._waiting: asyncio.Queue[dict[str, Any]] = asyncio.Queue(MOST_WAITING)
        await self.rechecked()
        await self.channel_layer.group_add(GROUP, self.channel_name)
        await self.agree()
        self._sender = asyncio.create_task(self._send_all())

    async def closed(self) -> None:
        if self._sender is not None:
            self._sender.cancel()
        with contextlib.suppress(Exception):  # Redis may be away; the channel expires anyway
            await self.channel_layer.group_discard(GROUP, self.channel_name)

    async def rechecked(self) -> None:
        self.sight = await database_sync_to_async(lambda: job_sight(user=self.user))()

    async def berth_event(self, event: dict[str, Any]) -> None:
        """Handles a channel layer event. Never waits for the browser: the layer's own queue is unbounded."""
        for payload in event["payloads"]:
            if event["kind"] == "job" and not self.sight.covers(user_id=payload["user"], vc_id=payload["vc"]):
                continue
            try:
                self._waiting.put_nowait({"kind": event["kind"], **payload})
            except asyncio.QueueFull:
                self.skipped = True

    async def _send_all(self) -> None:
        while True:
            message = await self._waiting.get()
            await self.send(json.dumps(message))
            if self.skipped and self._waiting.empty():
                self.skipped = False
                await self.send(json.dumps({"kind": "skipped"}))
