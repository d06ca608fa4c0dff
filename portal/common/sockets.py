"""Websocket addresses that the portal does not have."""

from __future__ import annotations

from typing import Any

from asgiref.typing import ASGIReceiveCallable, ASGISendCallable

NOT_FOUND = b"There is no such websocket.\n"
HEADERS = [
    (b"content-type", b"text/plain; charset=utf-8"),
    (b"content-length", str(len(NOT_FOUND)).encode()),
    (b"cache-control", b"no-store"),
]


async def no_such_socket(scope: Any, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    """An ASGI application that refuses the handshake: 404, or the server's own refusal where it cannot be told which
    status to answer."""
    await receive()
    answers: list[Any] = [{"type": "websocket.close"}]
    if "websocket.http.response" in (scope.get("extensions") or {}):
        answers = [
            {"type": "websocket.http.response.start", "status": 404, "headers": HEADERS},
            {"type": "websocket.http.response.body", "body": NOT_FOUND},
        ]
    for answer in answers:
        await send(answer)
