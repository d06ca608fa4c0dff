"""One question to an untrusted listener, which may be a job's task: whatever comes, it ends at a deadline and after a
number of bytes."""

from __future__ import annotations

import errno
import os
import select
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple, TypeVar

MOST = 16 << 10
"""Bytes of an answer that are read."""
MOST_SECURED = 8 * MOST
"""Bytes that come over TLS, with its certificates."""

Done = TypeVar("Done")


class SocketAddress(NamedTuple):
    """Address and port of a listener."""

    address: str
    port: int


def exchange(
    address: SocketAddress, request: bytes, ends_at: float, *, tls: bool = False, most: int = MOST,
    whole: Callable[[bytes], bool] = lambda read: False,
) -> bytes:  # fmt: skip
    """Its answer until it closes the connection, the answer is ``whole``, ``most`` bytes have come, or it is
    ``ends_at`` (monotonic seconds); empty where it says nothing. Raises OSError where it takes no connection, or speaks
    no TLS."""
    family = socket.AF_INET6 if ":" in address.address else socket.AF_INET
    with closing(socket.socket(family, socket.SOCK_STREAM)) as sock:
        sock.setblocking(False)
        plain = _Plain(sock, ends_at)
        plain.connect(address)
        connection = _Secured(plain) if tls else plain
        read = b""
        try:
            connection.send(request)
            while len(read) < most and not whole(read) and (more := connection.read(most - len(read))):
                read += more
        except OSError:  # too late, or broken off: what has come counts
            pass
        return read


class _Plain:
    """A connection that waits for nothing after ``ends_at``."""

    def __init__(self, sock: socket.socket, ends_at: float) -> None:
        self._socket, self._ends_at = sock, ends_at

    def connect(self, address: SocketAddress) -> None:
        code = self._socket.connect_ex(tuple(address))
        if code == errno.EINPROGRESS:
            self._wait(select.POLLOUT)
            code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))

    def send(self, request: bytes) -> None:
        """Sends everything, which is less than a new socket takes at once."""
        self._wait(select.POLLOUT)
        self._socket.send(request)

    def read(self, most: int) -> bytes:
        self._wait(select.POLLIN)
        return self._socket.recv(most)

    def _wait(self, what: int) -> None:
        """Waits by poll: select knows no file above 1023."""
        poll, left = select.poll(), self._ends_at - time.monotonic()
        poll.register(self._socket, what)
        if left <= 0 or not poll.poll(1000 * left):
            raise TimeoutError("no answer in time")


class _Secured:
    """The same over TLS. Data goes through memory: OpenSSL, reading by itself, would go on for as long as somebody
    sends it garbage."""

    def __init__(self, plain: _Plain) -> None:
        self._plain, self._taken = plain, 0
        self._coming, self._going = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = _CONTEXT.wrap_bio(self._coming, self._going)
        self._done(self._tls.do_handshake)

    def send(self, request: bytes) -> None:
        self._done(lambda: self._tls.write(request))

    def read(self, most: int) -> bytes:
        return self._done(lambda: self._tls.read(most))

    def _done(self, act: Callable[[], Done]) -> Done:
        while True:
            try:
                done = act()
            except ssl.SSLWantReadError:
                self._flush()
                self._take()
            else:
                self._flush()
                return done

    def _flush(self) -> None:
        if going := self._going.read():
            self._plain.send(going)

    def _take(self) -> None:
        if self._taken > MOST_SECURED:
            raise TimeoutError("too much for one answer")
        if more := self._plain.read(MOST):
            self._taken += len(more)
            self._coming.write(more)
        else:
            self._coming.write_eof()


def _context() -> ssl.SSLContext:
    """A context that accepts any certificate: nothing secret is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


_CONTEXT = _context()
