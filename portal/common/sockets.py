"""Fallback for unknown websocket paths."""

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
    """ASGI application that refuses the handshake: with 404, or with the server's default refusal if it cannot take a
    status."""
    await receive()
    answers: list[Any] = [{"type": "websocket.close"}]
    if "websocket.http.response" in (scope.get("extensions") or {}):
        answers = [
            {"type": "websocket.http.response.start", "status": 404, "headers": HEADERS},
            {"type": "websocket.http.response.body", "body": NOT_FOUND},
        ]
    for answer in answers:
        await send(answer)
