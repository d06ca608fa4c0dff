"""A Docker Engine that gives the answers it is told to: for versions and image stores of Docker that are not here."""

from __future__ import annotations

import base64
import json
import re
import socketserver
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

VERSION = {"Version": "29.1.2", "ApiVersion": "1.52", "MinAPIVersion": "1.44"}


@dataclass(frozen=True, slots=True)
class Request:
    """``groups``: of the pattern; ``login``: one to a registry came with it."""

    groups: tuple[str, ...]
    query: dict[str, str]
    login: bool


class ScriptedEngine:
    """``answers``: by a pattern of the whole request (``GET /images/json``, without its version and query) a status and
    what is told; a tuple is told piece by piece, bytes as they are, and a function of the request is asked for both.
    What has no answer is not found. ``seen`` has the lines of all requests."""

    def __init__(self, folder: Path, answers: dict[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.url = f"unix://{folder}/scripted.sock"
        self.answers: dict[str, Any] = {"GET /version": (200, VERSION), **answers}
        self.seen: list[str] = []
        self.closed = False
        self._server = _Server(f"{folder}/scripted.sock", type("OfOne", (_Handler,), {"engine": self}))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """From now on nobody is answered, by a connection that is open neither."""
        self.closed = True
        self._server.shutdown()
        self._server.server_close()

    def answer(self, line: str, login: bool) -> tuple[int, Any]:
        self.seen.append(line)
        method, _, address = line.partition(" ")
        path, _, query = unquote(address).partition("?")
        asked = f"{method} {re.sub(r'^/v[0-9.]+', '', path)}"
        for pattern, told in self.answers.items():
            if match := re.fullmatch(pattern, asked):
                request = Request(match.groups(), dict(parse_qsl(query)), login)
                found: tuple[int, Any] = told(request) if callable(told) else told
                return found
        return 404, {"message": f"there is no {asked}"}


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class _Handler(BaseHTTPRequestHandler):
    engine: ScriptedEngine
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.engine.closed:
            self.close_connection = True
            return
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        auth = base64.urlsafe_b64decode(self.headers.get("X-Registry-Auth") or b"e30=")
        status, told = self.engine.answer(f"{self.command} {self.path}", bool(json.loads(auth)))
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if isinstance(told, tuple):
            self._pieces(told)
        else:
            body = told if isinstance(told, bytes) else json.dumps(told).encode()
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    do_POST = do_DELETE = do_HEAD = do_GET

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""

    def _pieces(self, told: tuple[Any, ...]) -> None:
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in told:
            body = json.dumps(piece).encode() + b"\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(body), body))
        self.wfile.write(b"0\r\n\r\n")
