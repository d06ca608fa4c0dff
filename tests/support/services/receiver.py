"""A real HTTP server on loopback that keeps what it is sent, and answers what it is told to."""

from __future__ import annotations

import json
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)


class Receiver:
    """``status``, ``location`` and ``length``: of its answers from now on. With a ``certificate`` it speaks TLS; the
    ``key`` lies in the same file, or in its own."""

    def __init__(self, host: str = "127.0.0.1", *, certificate: Path | None = None, key: Path | None = None) -> None:
        self.received: list[Received] = []
        self.status, self.location, self.length = 204, "", 0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.received.append(Received(self.path, headers, body))
                self.send_response(receiver.status)
                if receiver.location:
                    self.send_header("Location", receiver.location)
                self.send_header("Content-Length", str(receiver.length))
                self.end_headers()
                with suppress(ConnectionError):  # who has read enough goes
                    self.wfile.write(b"x" * receiver.length)

            def log_message(self, *args: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer((host, 0), Handler)
        if certificate is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(certificate, key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_port
        self.url = f"http://{host}:{self.port}/hook"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
