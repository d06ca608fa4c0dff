"""Meaning of a websocket's end."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress

from websockets.exceptions import ConnectionClosed, InvalidStatus, InvalidURI, WebSocketException
from websockets.sync.client import ClientConnection

from berth.calls import tls_failure
from berth.errors import (
    BerthError,
    Conflict,
    Misused,
    NotAllowed,
    NotFound,
    NotSignedIn,
    SocketRefused,
    TooMany,
)

LOST = (OSError, EOFError, WebSocketException)
"""Errors that end a connection: websockets' own exceptions and those beneath them."""
NOT_SIGNED_IN, NOT_ALLOWED, NOT_VISIBLE, IN_THE_WAY, TOO_MANY = 4401, 4403, 4404, 4409, 4429


class Closable(ClientConnection):
    """A connection that can be closed at any time.

    Over TLS its reading thread waits in the socket itself, once anything came that is no data (session tickets come
    right after the handshake). A socket that is closed does not wake it on Linux, and websockets 17.4 waits for the
    thread's end after that: for ever, with a server that has gone silent.
    """

    def close_socket(self) -> None:
        with suppress(OSError):  # it has never been open, or is not any more
            self.socket.shutdown(socket.SHUT_RDWR)
        super().close_socket()


def final_error(error: Exception, url: str, what: str) -> BerthError | None:
    """The error that no retry would change; None: the connection was lost, as connections are. ``what`` was asked
    for."""
    if isinstance(error, ConnectionClosed) and error.rcvd is not None:
        return _close_error(error.rcvd.code, error.rcvd.reason, what)
    if isinstance(error, InvalidStatus) and error.response.status_code < 500:
        status = error.response.status_code
        return SocketRefused(f"{url} answered the websocket with {status}: is there a proxy that lets none through?")
    if isinstance(error, InvalidURI):
        return Misused(str(error))
    if isinstance(error, ssl.SSLCertVerificationError):
        return tls_failure(url, error)
    return None


def _close_error(code: int, reason: str, what: str) -> BerthError | None:
    if code == NOT_SIGNED_IN:
        return NotSignedIn(401, "Not signed in", "The token is not known, expired or revoked.")
    if code == NOT_ALLOWED:
        return NotAllowed(403, "Not allowed", reason)
    if code == NOT_VISIBLE:
        return NotFound(404, "Not found", f"There is no such {what} that you may see.")
    if code == IN_THE_WAY:
        return Conflict(409, "Conflict", reason)
    if code == TOO_MANY:
        return TooMany(429, "Too many at once", reason)
    return None
