"""How the web process takes an HTTP request."""

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
"""At most so many requests are worked on at once; most wait for the database, which has a pool of its own."""
AT_ONCE = 2
"""One computes while the other waits for the database."""
PATIENCE_S = 0.1
"""What takes longer waits for a node, or sums up a lot."""


class InOneThread(ASGIHandler):
    """A request is taken, answered and closed in one thread of a pool, as under WSGI, since none of our views is
    asynchronous. Django's own handler starts a thread for each request, changes between it and the event loop five
    times and carries back what the view set, which together costs as much as a small answer. Long answers are sent by
    the event loop, so that slow readers hold no thread."""

    def __init__(self) -> None:
        super().__init__()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="request")
        self._turns = Turns(AT_ONCE, PATIENCE_S)

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
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
        """The answer; closed, unless it is still to be made while it is sent."""
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=self.__class__, scope=scope)
        request, refusal = self.create_request(scope, body)
        response = cast(HttpResponseBase, refusal if request is None else self.get_response(request))
        response.__dict__["_handler_class"] = self.__class__  # it tells that the request is over when it is closed
        if isinstance(response, FileResponse):
            response.block_size = self.chunk_size
        if response.streaming:
            close_old_connections()  # made further in another thread, which has a connection of its own
        else:
            response.close()
        return response

    async def _stream(self, response: HttpResponseBase, receive: Any, send: Any) -> None:
        """Send it until it is whole, or nobody reads any more, or who asked for it has lost the right to it. What is
        not whole then is cut off, as the server's protocol does it."""
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
            # In the thread in which it was made, whose connection to the database is given back with it.
            await sync_to_async(response.close)()
        if isinstance(sent, Exception):
            raise sent
