"""What agents fetch code from: archives over real HTTP or HTTPS, whole, in parts, cut off, damaged, or not at all."""

from __future__ import annotations

import hashlib
import io
import re
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from nodes.protocol.messages import Code
from nodes.protocol.packed import Bounds, packed_check
from tests.support.services.tls import Files


class CodeServer:
    """Serves `archives` by their SHA-256. ``status``: what is answered instead; ``cut_at``: bytes of the body after
    which a connection breaks; ``damage``: another byte in the middle; ``resumes``: takes a request for a rest. `asked`
    notes where each request begins."""

    def __init__(self, tls: Files | None = None) -> None:
        self.archives: dict[str, bytes] = {}
        self.asked: list[int] = []
        self.status = 0
        self.cut_at: int | None = None
        self.damage = False
        self.resumes = True
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.port = self._server.server_port
        self._scheme = "https" if tls else "http"
        if tls:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(tls.certificate, tls.key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def add(self, archive: bytes) -> Code:
        """Serves it from now on. Returns what an order says of it."""
        sha256 = hashlib.sha256(archive).hexdigest()
        self.archives[sha256] = archive
        holds = packed_check(io.BytesIO(archive), Bounds(1 << 40, 1 << 20))
        return Code(sha256=sha256, size=len(archive), unpacked=holds.unpacked, entries=holds.entries)

    def url(self, code: Code) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}/node/code/{code.sha256}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


def _handler(server: CodeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = server.archives[self.path.rpartition("/")[2]]
            asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            start = int(asked[1]) if asked and server.resumes else 0
            server.asked.append(start)
            if server.status:
                self.send_error(server.status)
                return
            if server.damage:
                body = body[: len(body) // 2] + bytes([body[len(body) // 2] ^ 1]) + body[len(body) // 2 + 1 :]
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(body) - start))
            self.end_headers()
            if server.cut_at is not None and server.cut_at < len(body):
                self.wfile.write(body[start : server.cut_at])
                self.close_connection = True
            else:
                self.wfile.write(body[start:])

        def log_message(self, format: str, *args: Any) -> None:
            """Nobody reads it."""

    return Handler
