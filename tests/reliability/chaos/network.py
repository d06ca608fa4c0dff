"""The network between a node and the portal's Redis: it can fall silent, as a pulled cable does, and come back."""

from __future__ import annotations

import contextlib
import socket
import threading

from tests.support.services.redis_server import RedisServer


class Cable:
    """`port` leads to Redis. While it is cut nothing passes, in either direction, and nobody is told; what was sent
    meanwhile arrives once it is mended, as TCP does it, or its connections are gone (``mend(reset=True)``)."""

    def __init__(self, redis: RedisServer) -> None:
        self._redis = redis
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._passing = threading.Event()
        self._passing.set()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._passing.clear()

    def mend(self, *, reset: bool = False) -> None:
        if reset:
            with self._lock:
                ended, self._open = self._open, set()
            for one in ended:
                _shut(one)
        self._passing.set()

    def close(self) -> None:
        _shut(self._listener)
        self._listener.close()
        self.mend(reset=True)

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._join, args=(here,), daemon=True).start()

    def _join(self, here: socket.socket) -> None:
        self._passing.wait()
        try:
            there = socket.create_connection(("127.0.0.1", self._redis.port))
        except OSError:
            here.close()
            return
        with self._lock:
            self._open |= {here, there}
        back = threading.Thread(target=self._pass_on, args=(there, here), daemon=True)
        back.start()
        self._pass_on(here, there)
        back.join()
        with self._lock:
            self._open -= {here, there}
        here.close()
        there.close()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._passing.wait()
                sink.sendall(data)
        _shut(source)
        _shut(sink)


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
