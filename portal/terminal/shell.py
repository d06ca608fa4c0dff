"""A shell in a task, as a web process holds it: frames from the browser to the node and back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import redis.asyncio
from django.conf import settings
from django.utils.translation import gettext
from redis import RedisError
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from nodes.protocol.messages import decode
from nodes.protocol.sessions import (
    CHUNK,
    Frame,
    FrameKind,
    SessionBroken,
    SessionEnd,
    SessionFault,
    ShellRequest,
    size_encode,
)
from portal.hardware.models import Node
from portal.node_sessions.calling import (
    ANSWER_WITHIN_S,
    BLOCK_MS,
    FRAMES_AT_ONCE,
    SILENCE_S,
    SessionFailed,
    failure_of,
    session_call,
    size_of,
)

ALIVE_EVERY_S = 2.0
NODE_PATIENCE_S = 12
"""So long the node lets a program live whose portal is silent."""


class ShellSession:
    """One program in a task. ``frames`` gives what comes from it; everything else may be called meanwhile."""

    def __init__(self, node: Node, request: ShellRequest) -> None:
        self._call = session_call(node=node, silence_s=NODE_PATIENCE_S, shell=request)
        self._redis = redis.asyncio.Redis.from_url(
            settings.REDIS_URL, socket_timeout=5, socket_connect_timeout=1, retry=Retry(NoBackoff(), 0)
        )
        self._sending = asyncio.Lock()
        self._busy_at = time.monotonic()
        self._closed = False

    @property
    def room(self) -> int:
        """Bytes that may be typed now."""
        return self._call.side.room

    @property
    def acknowledged(self) -> int:
        """Bytes that the program has taken, of all that was typed."""
        return self._call.side.acknowledged

    async def frames(self) -> AsyncIterator[Frame]:
        """ANSWER, then DATA and ERRORS, and TAKEN where the program took more of what was typed; the exit status ends
        it, as END. What was given is taken once the next is asked for. Raises SessionFailed."""
        ticker: asyncio.Task[None] | None = None
        try:
            await self._ask()
            ticker = asyncio.create_task(self._keep_alive())
            async for frame in self._read(ticker):
                yield frame
        except (RedisError, OSError, SessionBroken, msgspec.MsgspecError) as error:
            raise SessionFailed(SessionFault.BROKEN, gettext("The lane to the node is broken.")) from error
        finally:
            if ticker is not None:
                ticker.cancel()

    async def type(self, data: bytes) -> None:
        """Sends what was typed; there must be room for it. Raises RedisError."""
        self._busy_at = time.monotonic()
        for start in range(0, len(data), CHUNK):
            await self._send(FrameKind.DATA, data[start : start + CHUNK])

    async def finish(self) -> None:
        """Nothing more is typed. Raises RedisError."""
        await self._send(FrameKind.FINISH)

    async def resize(self, rows: int, columns: int) -> None:
        """The terminal has another size. Raises RedisError."""
        await self._send(FrameKind.RESIZE, size_encode(rows, columns))

    async def close(self) -> None:
        """Ends the program, if it still runs."""
        if self._closed:
            return
        self._closed = True
        try:
            pipe = self._redis.pipeline(transaction=False)
            async with self._sending:
                self._call.add(pipe, self._call.side.seal(FrameKind.END))
                pipe.delete(self._call.up)
                await pipe.execute()
        except (RedisError, OSError):
            return  # the node ends it when it hears nothing
        finally:
            await self._redis.aclose()

    async def _ask(self) -> None:
        pipe = self._redis.pipeline(transaction=False)
        self._call.ask(pipe)
        await pipe.execute()

    async def _read(self, ticker: asyncio.Task[None]) -> AsyncIterator[Frame]:
        last: Any = b"0-0"
        heard, patience = time.monotonic(), ANSWER_WITHIN_S
        while time.monotonic() - heard < patience:
            if ticker.done():
                ticker.result()
            answer: Any = await self._redis.xread({self._call.up: last}, count=FRAMES_AT_ONCE, block=BLOCK_MS)
            for last, fields in answer[0][1] if answer else ():
                frame = self._call.side.open(last, fields.get(b"frame", b""))
                if frame.kind is FrameKind.END:
                    yield _end(frame)
                    return
                if frame.kind is not FrameKind.ALIVE:
                    yield frame
                await self._take(frame, last)
            if answer:
                heard, patience = time.monotonic(), SILENCE_S
        raise self._call.gone()

    async def _take(self, frame: Frame, entry_id: Any) -> None:
        size = size_of(frame)
        if size:
            self._busy_at = time.monotonic()
            pipe = self._redis.pipeline(transaction=False)
            async with self._sending:
                self._call.add(pipe, self._call.side.take(size))
                pipe.xtrim(self._call.up, minid=entry_id, approximate=False)
                await pipe.execute()

    async def _keep_alive(self) -> None:
        """Says that the portal lives, and ends it when nobody types and nothing is written for too long."""
        while True:
            await asyncio.sleep(ALIVE_EVERY_S)
            idle_s = settings.SHELL_IDLE_S
            if time.monotonic() - self._busy_at > idle_s:
                message = gettext("Nothing was typed or written for %(seconds)s seconds.") % {"seconds": idle_s}
                raise SessionFailed(SessionFault.BROKEN, message)
            await self._send(FrameKind.ALIVE)

    async def _send(self, kind: FrameKind, payload: bytes = b"") -> None:
        pipe = self._redis.pipeline(transaction=False)
        async with self._sending:
            self._call.add(pipe, self._call.side.seal(kind, payload))
            await pipe.execute()


def _end(frame: Frame) -> Frame:
    """The last frame, if it tells of no failure. Raises SessionFailed."""
    failed = failure_of(decode(frame.payload, SessionEnd))
    if failed is not None:
        raise failed
    return frame
