"""Connection failures as one sentence with the cause and its cure."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import SplitResult, urlsplit

import redis
from urllib3.exceptions import ProxyError

# OpenSSL's numbers (x509_vfy.h) of what is wrong with a certificate.
NOT_YET_VALID, EXPIRED = 9, 10
WRONG_NAME = frozenset({62, 64})
_UNREADABLE = urlsplit("")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server as settings name it: ``what`` is reached at ``url``; ``setting`` names where that address is set, ``ca``
    where the file of its authority is. ``refused`` follows "does not" where the account is not let in, ``forbidden`` is
    what to do where it lacks a right. ``hidden``: readers need not know the address, so that the sentence names the
    setting alone."""

    what: str
    url: str
    setting: str
    ca: str
    refused: str = "know this account or its password: correct them"
    forbidden: str = "give it the right"
    hidden: bool = False

    @property
    def host(self) -> str:
        return self._parts.hostname or "127.0.0.1"

    @property
    def scheme(self) -> str:
        return self._parts.scheme

    @property
    def at(self) -> str:
        if self.unnamed:
            return f"{self.what} of {self.setting}"
        port = self._parts.port
        return f"{self.what} at {self.host}:{port}" if port else f"{self.what} at {self.host}"

    @property
    def unnamed(self) -> bool:
        """Whether its address is hidden or unreadable: the setting is named alone."""
        return self.hidden or self._parts == _UNREADABLE

    @property
    def _parts(self) -> SplitResult:
        try:
            parts = urlsplit(self.url)
            return parts if parts.port != 0 else _UNREADABLE
        except ValueError:
            return _UNREADABLE


def connection_fault(error: BaseException, endpoint: Endpoint, *, now_ms: int) -> str:
    """The sentence. Where the cause is not known, it quotes the library."""
    words = _fault(error, endpoint, now_ms)
    return words[:1].upper() + words[1:]


def _fault(error: BaseException, endpoint: Endpoint, now_ms: int) -> str:
    causes = list(causes_of(error))
    if any(isinstance(cause, ProxyError) for cause in causes):
        return (
            f"The proxy on the way to {endpoint.at} cannot be used ({_innermost(error)}): correct HTTPS_PROXY or "
            f"HTTP_PROXY, or name {endpoint.host} in NO_PROXY."
        )
    for cause in causes:
        if words := _certificate(cause, endpoint, now_ms) or _network(cause, endpoint) or _account(cause, endpoint):
            return words
    if any(isinstance(cause, redis.TimeoutError) for cause in causes):
        return _silent(endpoint)
    if any(_is_close(cause) for cause in causes):
        return f"{endpoint.at} closed the connection: {_closed(endpoint)}."
    return f"{endpoint.at} cannot be used ({_innermost(error)}): look at its own log, and at {endpoint.setting}."


def _is_close(cause: BaseException) -> bool:
    """Whether the connection was closed; clients of Redis and SMTP have their own words for it."""
    message = str(cause)
    return isinstance(cause, ConnectionResetError) or "closed by server" in message or "unexpectedly closed" in message


def _closed(endpoint: Endpoint) -> str:
    secure = _SECURE.get(endpoint.scheme)
    if secure is None:
        return "it ended, or has begun anew; if it stays so, look at its own log"
    return f"it ended or has begun anew, or it wants TLS; then {endpoint.setting} begins with {secure}://"


def causes_of(error: BaseException | None) -> Iterator[BaseException]:
    """The error and its causes, innermost first: libraries wrap what the system said."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        error = error.__cause__ or error.__context__ or _wrapped(error)
    return reversed(seen)


def _wrapped(error: BaseException) -> BaseException | None:
    """The error inside: requests and urllib3 keep what they wrap in ``args`` or ``reason``."""
    reason = getattr(error, "reason", None)
    held = (reason, *error.args)
    return next((one for one in held if isinstance(one, BaseException) and one is not error), None)


def _innermost(error: BaseException) -> str:
    """Text of the innermost error. The wrappers of requests name the whole address, which may be a credential."""
    while inner := _wrapped(error):
        error = inner
    return str(error)


def _certificate(cause: BaseException, endpoint: Endpoint, now_ms: int) -> str:
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _not_trusted(cause, endpoint, now_ms)
    if _no_authorities(cause):
        return f"The authorities by which {endpoint.at} is known cannot be read ({cause}): correct {endpoint.ca}."
    if isinstance(cause, ssl.SSLError):
        return (
            f"{endpoint.at} does not speak TLS: correct the port or the beginning of the address in {endpoint.setting}."
        )
    return ""


def _no_authorities(cause: BaseException) -> bool:
    """Whether the file of authorities is missing, or holds none."""
    if isinstance(cause, ssl.SSLError):
        return cause.reason == "NO_CERTIFICATE_OR_CRL_FOUND"
    return isinstance(cause, OSError) and "TLS CA certificate bundle" in str(cause)


def _not_trusted(cause: ssl.SSLCertVerificationError, endpoint: Endpoint, now_ms: int) -> str:
    today = f"{datetime.fromtimestamp(now_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
    if cause.verify_code == EXPIRED:
        return (
            f"The certificate of {endpoint.at} has expired: renew it there (or set this clock right: it says {today})."
        )
    if cause.verify_code == NOT_YET_VALID:
        return f"The certificate of {endpoint.at} is not valid yet: this server's clock says {today}; set it right."
    if cause.verify_code in WRONG_NAME:
        wanted = "that one" if endpoint.unnamed else endpoint.host
        return (
            f"The certificate of {endpoint.at} is for another name: write the name that it has into "
            f"{endpoint.setting}, or have one made for {wanted}."
        )
    return (
        f"The certificate of {endpoint.at} is signed by an authority that is not known here "
        f"({cause.verify_message}): name its file in {endpoint.ca}."
    )


def _network(cause: BaseException, endpoint: Endpoint) -> str:
    if isinstance(cause, socket.gaierror) or _no_name(cause):
        if endpoint.unnamed:
            return f"There is no server of the name in {endpoint.setting}: correct that, or this server's DNS."
        return f"There is no server named {endpoint.host}: correct {endpoint.setting}, or this server's DNS."
    if isinstance(cause, ConnectionRefusedError):
        return f"Nothing listens where {endpoint.at} should: start it, open its port, or correct {endpoint.setting}."
    if isinstance(cause, TimeoutError):
        return _silent(endpoint)
    if isinstance(cause, OSError) and cause.errno in _NO_WAY:
        return f"There is no way to {endpoint.at}: look at this server's routes, or correct {endpoint.setting}."
    return ""


def _no_name(cause: BaseException) -> bool:
    """Whether the name is malformed, such as two dots in a row, so that DNS is not even asked."""
    return isinstance(cause, UnicodeError) and not isinstance(cause, UnicodeDecodeError)


def _silent(endpoint: Endpoint) -> str:
    scheme = endpoint.scheme
    more = ", or it does not speak TLS" if scheme in _SECURE.values() else _WAITS_FOR_TLS.get(scheme, "")
    return (
        f"{endpoint.at} does not answer: look for a firewall between, or a wrong address in {endpoint.setting}{more}."
    )


_SECURE = {"redis": "rediss", "http": "https", "smtp": "smtps"}
"""Schemes with TLS, by those without."""
_WAITS_FOR_TLS = dict.fromkeys(("smtp", "smtp+tls"), ", or it speaks TLS from the beginning; then that is smtps://")
"""In SMTP the server speaks first, unless it waits for TLS."""
_NO_WAY = frozenset({101, 113})
"""ENETUNREACH, EHOSTUNREACH."""


def _account(cause: BaseException, endpoint: Endpoint) -> str:
    if isinstance(cause, redis.OutOfMemoryError):
        return f"{endpoint.at} has no memory left: raise its maxmemory."
    if isinstance(cause, redis.ReadOnlyError):
        return f"{endpoint.at} is a replica, which takes no writes: name the primary in {endpoint.setting}."
    if isinstance(cause, redis.exceptions.NoPermissionError):
        return f"{endpoint.at} does not allow this account to do it ({cause}): {endpoint.forbidden}."
    if isinstance(cause, redis.AuthenticationError):
        return f"{endpoint.at} does not {endpoint.refused}."
    return ""
