"""Unfinished lines of a container's output, which the Engine writes into no log."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import docker
import requests
import structlog
import urllib3
from docker.errors import APIError

from nodes.agent.logs.base import OpenLine
from nodes.agent.runtimes.base import RuntimeUnavailable
from nodes.protocol.logs import STDERR, STDOUT

FLUSHED = 16 * 1024
"""Bytes of an unfinished line that the Engine writes at a time."""
_HEADER = 8
_READ = 64 * 1024

log = structlog.get_logger(__name__)


class OpenLines:
    """Listens to the unfinished lines of one container, attached from ``attach`` on until it ends.

    A thread reads everything: the Engine blocks a container where an attached client leaves a megabyte unread. Attached
    before the container's start, it knows each line from its beginning.
    """

    def __init__(self, container: str, connect: Callable[[], docker.APIClient]) -> None:
        self._container, self._connect = container, connect
        self._lines: dict[int, OpenLine] = {}
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def attach(self, *, started: bool) -> None:
        """Starts listening unless it does already. ``started``: something may have been printed before. A container
        that cannot be attached to loses nothing: its lines come once they are whole."""
        with self._lock:
            if self._socket is not None:
                return
            try:
                self._listen(started)
            except (
                RuntimeUnavailable,
                APIError,
                requests.RequestException,
                urllib3.exceptions.HTTPError,
                OSError,
            ) as error:
                log.info("lines without an end are not heard", container=self._container, error=str(error))

    def lines(self) -> dict[int, OpenLine]:
        """What stands behind the last line end, by stream."""
        return dict(self._lines)

    def close(self) -> None:
        """Stops listening."""
        with self._lock, contextlib.suppress(OSError):
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)

    def _listen(self, started: bool) -> None:
        client = self._connect()
        with contextlib.ExitStack() as unless_heard:
            unless_heard.callback(client.close)
            raw: Any = client.attach_socket(self._container, params={"stdout": 1, "stderr": 1, "stream": 1})
            self._lines = {stream: OpenLine(0, b"", cut=started) for stream in (STDOUT, STDERR)}
            self._socket = getattr(raw, "_sock", raw)
            self._socket.settimeout(None)
            # Not from the socket itself: what came along with the answer's head lies in the reader's buffer already.
            heard = client, raw._response.raw._fp.fp
            threading.Thread(target=self._hear, args=heard, name="log-unfinished", daemon=True).start()
            unless_heard.pop_all()

    def _hear(self, client: docker.APIClient, output: Any) -> None:
        try:
            for stream, payload in frames_in(iter(lambda: output.read1(_READ), b"")):
                line = self._lines.get(stream)
                if line and (line.text or line.cut or not payload.endswith(b"\n")):  # else whole lines, which come fast
                    self._lines[stream] = _grown(line, payload)
        except (OSError, ValueError) as error:
            log.debug("lines without an end are heard no more", container=self._container, error=str(error))
        finally:
            with self._lock:
                self._socket, self._lines = None, {}
            client.close()


def _grown(line: OpenLine, payload: bytes) -> OpenLine:
    """The open line after ``payload``: as much of it as the Engine has not written, and up to as much again before
    that, where a secret may have begun."""
    at = payload.rfind(b"\n")
    text, cut = (line.text + payload, line.cut) if at < 0 else (payload[at + 1 :], False)
    text = text[max(0, len(text) // FLUSHED - 1) * FLUSHED :]
    return OpenLine(time.time_ns(), text, new=len(text) // FLUSHED * FLUSHED, cut=cut)


def frames_in(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """(stream, payload) of each frame of Docker's multiplexed stream; a frame cut at the end is left out."""
    rest = b""
    for chunk in chunks:
        data, position = rest + chunk if rest else chunk, 0
        while len(data) - position >= _HEADER:
            size = int.from_bytes(data[position + 4 : position + _HEADER], "big")
            end = position + _HEADER + size
            if end > len(data):
                break
            yield data[position], data[position + _HEADER : end]
            position = end
        rest = data[position:]
