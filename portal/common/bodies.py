"""How large a request's body may be at all, judged while it comes in.

Django writes a body to the disk before any view, and so any limit of a view's, sees it: without this, whoever reaches
the port could fill the disk.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from django.template.loader import render_to_string

from portal.common.problems import MEDIA_TYPE, problem

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Any, Any, Any], Awaitable[None]]
LimitOf = Callable[[str], int]


class _TooLarge(Exception):
    """More came than is taken."""


class BodyLimit:
    """An ASGI application in front of ``application``: 413 for a body of more bytes than ``limit_of`` gives for its
    path, at once where its length is named, else at the first byte too many."""

    def __init__(self, application: Application, limit_of: LimitOf) -> None:
        self._application, self._limit_of = application, limit_of

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        limit = self._limit_of(scope["path"])
        if _named_length(scope) > limit:
            await _refuse(scope, send, limit)
            return
        try:
            await self._application(scope, _counted(receive, limit), send)
        except _TooLarge:
            await _refuse(scope, send, limit)


def _named_length(scope: Any) -> int:
    text = dict(scope["headers"]).get(b"content-length", b"")
    return int(text) if text.isdigit() else 0


def _counted(receive: Receive, limit: int) -> Receive:
    taken = 0

    async def counted() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > limit:
            raise _TooLarge
        return message

    return counted


async def _refuse(scope: Any, send: Send, limit: int) -> None:
    """For whoever sent a form a page, for programs a problem document."""
    for_people = b"text/html" in dict(scope["headers"]).get(b"accept", b"")
    if for_people:
        media_type, text = "text/html; charset=utf-8", str(render_to_string("413.html", {"limit": limit}))
    else:
        media_type, text = MEDIA_TYPE, json.dumps(problem(413, f"At most {limit} bytes are taken."))
    body = text.encode()
    headers = [(b"content-type", media_type.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 413, "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": body})
