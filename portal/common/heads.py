"""Limit on a request's head, its first line and headers, enforced while it comes in.

Uvicorn keeps all of a head in memory, before any of our code sees it, and knows no end of it: without this, anyone who
reaches the port could fill the memory. Each start of a web process names the class: ``--http``.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 64 * 1024
"""Most bytes that wait for the end of a head, or of what stands between the pieces of a body and behind it."""


class BoundedHeads(HttpToolsProtocol):
    """Uvicorn's HTTP, which ends a connection at a head that is too long."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._waiting = 0

    def data_received(self, data: bytes) -> None:
        self._waiting += len(data)
        super().data_received(data)
        if self._waiting > HEAD_BYTES:
            self.send_400_response(f"The head of a request has at most {HEAD_BYTES} bytes.")

    def on_headers_complete(self) -> None:
        self._waiting = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._waiting = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._waiting = 0
        super().on_message_complete()
