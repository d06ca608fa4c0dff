"""The portal's ASGI application behind a real server in a thread of the test: its websockets, its database."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.support.run.waiting import wait_until


class LiveWeb:
    """`host` is `127.0.0.1:PORT`."""

    def __init__(self, server: uvicorn.Server) -> None:
        self.server = server
        (listener,) = server.servers[0].sockets
        self.host = f"127.0.0.1:{listener.getsockname()[1]}"

    @contextmanager
    def socket(self, path: str, **options: Any) -> Iterator[Listener]:
        with connect(f"ws://{self.host}{path}", proxy=None, **options) as socket:
            yield Listener(socket)


class Listener:
    """One open websocket."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    def next(self, deadline_s: float = 10) -> Any:
        """The next message. Raises TimeoutError, ConnectionClosed."""
        return json.loads(self.socket.recv(timeout=deadline_s))

    def close_code(self, deadline_s: float = 10) -> int | None:
        """Waits for the server to close, and says with which code. Raises TimeoutError."""
        try:
            while True:
                self.next(deadline_s)
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else None


@contextmanager
def live_web(**options: Any) -> Iterator[LiveWeb]:
    """`options` are uvicorn's own."""
    from portal.asgi import application
    from portal.common.heads import BoundedHeads

    config = uvicorn.Config(
        application, port=0, log_level="warning", lifespan="off", http=BoundedHeads, ws="websockets-sansio",
        proxy_headers=False, **options,
    )  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started, "the web server")
    try:
        yield LiveWeb(server)
    finally:
        server.should_exit = True
        thread.join(10)
