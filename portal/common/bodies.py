"""Limits on a request body's size and slowness, enforced while it comes in.

Django writes a body to disk before any view (and thus any limit of a view) sees it, even before it knows the sender:
without this, anyone who reaches the port could fill the disk. Anyone may send a small body. A larger one needs a known
sender with not too many others under way; one that makes no progress is ended.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple

from django.template.loader import render_to_string
from django.utils.translation import gettext, gettext_noop

from portal.common.errors import Refused, TooLarge
from portal.common.problems import MEDIA_TYPE, problem
from portal.common.shares import Seat

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Any, Any, Any], Awaitable[None]]

PATIENCE_S, PIECE_BYTES = 60.0, 64 * 1024
"""An unfinished body must bring this many bytes in each such time; about 1 kB a second."""


class Limits(NamedTuple):
    """Largest body in bytes: from ``anybody``, and from a sender who holds a seat for it."""

    anybody: int
    seated: int


LimitsOf = Callable[[str], Limits]
SeatOf = Callable[[Any], Awaitable[Seat]]


class TooSlow(Refused):
    """The body comes too slowly to wait for it."""

    status = 408
    title = gettext_noop("Too slow")

    def __init__(self) -> None:
        super().__init__(gettext("The rest of the request did not come. Send it again."))


class BodyLimit:
    """ASGI middleware around ``application``. ``limits_of`` gives a path's limits; ``seat_of`` a seat for the sender of
    that scope, or raises Refused.

    413 for a body larger than its path takes: at once if its length is declared, else at the first byte too many.
    Whatever ``seat_of`` refuses, for a body larger than anybody's. 408 for one that stops coming.
    """

    def __init__(self, application: Application, limits_of: LimitsOf, seat_of: SeatOf) -> None:
        self._application, self._limits_of, self._seat_of = application, limits_of, seat_of

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        body = _Body(scope, receive, self._limits_of(scope["path"]), self._seat_of)
        try:
            await body.judge(_named_length(scope))
            await self._application(scope, body.receive, send)
            return
        except Refused as refused:
            answer = _answer(scope, refused)
        finally:
            body.over()
        await _send(send, *answer)


class _Body:
    """One request body on its way in."""

    def __init__(self, scope: Any, receive: Receive, limits: Limits, seat_of: SeatOf) -> None:
        self._scope, self._receive, self._limits, self._seat_of = scope, receive, limits, seat_of
        self._seat: Seat | None = None
        self._whole = False
        self._taken = 0
        self._wait_anew()

    async def judge(self, size: int) -> None:
        """Checks a body of this many bytes, declared or received. Raises Refused."""
        if size > self._limits.seated:
            raise TooLarge(self._limits.seated)
        if size > self._limits.anybody and self._seat is None:
            self._seat = await self._seat_of(self._scope)
            self._wait_anew()

    async def receive(self) -> Message:
        """Returns the next piece; after the last one, whatever follows, such as the disconnect. Raises Refused."""
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            raise TooSlow from None
        self._whole = not message.get("more_body", False)
        self._taken += len(message.get("body", b""))
        if self._taken >= self._waited_for:
            self._wait_anew()
        await self.judge(self._taken)
        return message

    def over(self) -> None:
        """Releases its seat."""
        if self._seat is not None:
            self._seat.give_back()

    def _wait_anew(self) -> None:
        self._until = asyncio.get_running_loop().time() + PATIENCE_S
        self._waited_for = self._taken + PIECE_BYTES


def _named_length(scope: Any) -> int:
    text = dict(scope["headers"]).get(b"content-length", b"")
    return int(text) if text.isdigit() else 0


Headers = list[tuple[bytes, bytes]]


def _answer(scope: Any, refused: Refused) -> tuple[int, Headers, bytes]:
    """An HTML page for a person who sent too large a form, else a problem document."""
    for_people = b"text/html" in dict(scope["headers"]).get(b"accept", b"")
    if for_people and isinstance(refused, TooLarge):
        media_type, text = "text/html; charset=utf-8", str(render_to_string("413.html", {"limit": refused.limit}))
    else:
        media_type = MEDIA_TYPE
        text = json.dumps(problem(refused.status, refused.detail, title=refused.title))
    headers = {"content-type": media_type, "content-length": str(len(text.encode())), "connection": "close"}
    if refused.retry_after_s is not None:
        headers["retry-after"] = str(refused.retry_after_s)
    if refused.status == 401:
        headers["www-authenticate"] = 'Bearer realm="berth"'
    return refused.status, [(name.encode(), value.encode()) for name, value in headers.items()], text.encode()


async def _send(send: Send, status: int, headers: Headers, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
