"""ASGI handler that runs each request in one thread."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import IO, Any, cast

from asgiref.sync import sync_to_async
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.db import close_old_connections
from django.http import FileResponse, HttpResponseBase
from django.urls import set_script_prefix

from portal.common.lasting import until_lost
from portal.common.streaming import Streamed
from portal.common.turns import Turns

THREADS = 64
"""Requests worked on at once; most wait for the database, which has its own connection pool."""
AT_ONCE = 2
"""One computes while the other waits for the database."""
PATIENCE_S = 0.1
"""A request that takes longer is waiting for a node, or summing up a lot."""


class InOneThread(ASGIHandler):
    """Receives, answers and closes a request in one thread of a pool, as under WSGI, since none of our views is async.
    Django's own handler starts a thread for each request, switches between it and the event loop five times and copies
    context back, which together costs as much as a small answer. Long answers are sent by the event loop, so that slow
    readers hold no thread."""

    def __init__(self) -> None:
        super().__init__()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="request")
        self._turns = Turns(AT_ONCE, PATIENCE_S)

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers one request."""
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        try:
            loop, context = asyncio.get_running_loop(), copy_context()
            async with self._turns.turn():
                response = await loop.run_in_executor(self._threads, context.run, self._answer, scope, body)
            if response.streaming:
                await self._stream(response, receive, send)
            else:
                await self.send_response(response, send)
        finally:
            body.close()

    def _answer(self, scope: Any, body: IO[bytes]) -> HttpResponseBase:
        """The response; closed already, unless it streams."""
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=self.__class__, scope=scope)
        request, refusal = self.create_request(scope, body)
        response = cast(HttpResponseBase, refusal if request is None else self.get_response(request))
        response.__dict__["_handler_class"] = self.__class__  # sender of request_finished on close
        if isinstance(response, FileResponse):
            response.block_size = self.chunk_size
        if response.streaming:
            close_old_connections()  # the rest is made in another thread, with its own connection
        else:
            response.close()
        return response

    async def _stream(self, response: HttpResponseBase, receive: Any, send: Any) -> None:
        """Sends the response until it is complete, the client disconnects, or the requester loses the right to it. An
        incomplete one is aborted as the server's protocol does it."""
        sending = asyncio.create_task(self.send_response(response, send))
        ends: list[asyncio.Task[Any]] = [sending, asyncio.create_task(receive())]
        if isinstance(response, Streamed):
            ends.append(asyncio.create_task(until_lost(response.asked)))
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()
            sent, *_ = await asyncio.gather(*ends, return_exceptions=True)
            # In the thread that made it, whose database connection is returned with it.
            await sync_to_async(response.close)()
        if isinstance(sent, Exception):
            raise sent
