"""A TCP proxy between a client and a server, that cuts connections when told to."""

from __future__ import annotations

import contextlib
import socket
import threading
from urllib.parse import urlsplit


class CuttingProxy:
    """`url` leads to `target`. `cut` ends every open connection; while `closed`, new ones are ended at once.
    `refused`: requests in which these words stand get the status behind them, and go no further."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._target = (parts.hostname or "127.0.0.1", parts.port or 80)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.closed = False
        self.refused: dict[bytes, int] = {}
        self.accepted = 0
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> int:
        """Ends what is open. Returns how many connections that were."""
        with self._lock:
            ended, self._open = self._open, set()
        for one in ended:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        return len(ended) // 2

    def close(self) -> None:
        self.closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            if self.closed:
                here.close()
                continue
            there = socket.create_connection(self._target)
            with self._lock:
                self._open |= {here, there}
            for source, sink in ((here, there), (there, here)):
                threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if status := next((status for words, status in self.refused.items() if words in data), 0):
                    source.sendall(b"HTTP/1.1 %d No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % status)
                    break
                sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open.discard(source)
        source.close()
