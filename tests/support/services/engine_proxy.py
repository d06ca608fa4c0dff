"""A way to a Docker Engine on which some requests are held up or refused, as by an Engine that has much to count."""

from __future__ import annotations

import http.client
import re
import socket
import socketserver
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit


class EngineProxy:
    """`url` leads to `target`, both unix sockets. A request whose line (``GET /v1.41/…``) matches `held` gets no answer
    before the end, one that matches `refused` a 500. Empty: none. ``seen`` has the lines of all."""

    def __init__(self, folder: Path, target: str) -> None:
        self.url, self.target = f"unix://{folder}/engine.sock", urlsplit(target).path
        self.held = self.refused = ""
        self.seen: list[str] = []
        self.over = threading.Event()
        self._server = _Server(f"{folder}/engine.sock", type("OfOne", (_Handler,), {"proxy": self}))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class _Handler(BaseHTTPRequestHandler):
    proxy: EngineProxy

    def do_GET(self) -> None:
        line = f"{self.command} {self.path}"
        self.proxy.seen.append(line)
        if self.proxy.held and re.search(self.proxy.held, line):
            self.proxy.over.wait()
        elif self.proxy.refused and re.search(self.proxy.refused, line):
            self._answer(500, b'{"message": "it is broken"}')
        else:
            self._pass_on()

    do_POST = do_DELETE = do_HEAD = do_GET

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        connection = http.client.HTTPConnection("engine")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(self.proxy.target)
        connection.request(self.command, self.path, body, dict(self.headers))
        answer = connection.getresponse()
        self._answer(answer.status, answer.read())
        connection.close()

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
