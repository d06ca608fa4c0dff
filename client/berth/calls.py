"""Requests as values, and their retries: written once, carried out by the blocking and the async client."""

from __future__ import annotations

import random
import ssl
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO, Any, Generic, TypeVar
from urllib.parse import parse_qsl, urlsplit

import httpx
import msgspec

from berth.decoding import decoded
from berth.errors import BadAnswer, Fault, Problem, TlsFailed, Unreachable, kind_of
from berth.model.base import Page

T = TypeVar("T")
Params = Mapping[str, Any]

PAUSES = (0.2, 0.6, 1.5)
"""Seconds before each retry, times a random number from 0.5 to 1.5, so that a restarted server is not stormed."""
LONGEST_PAUSE = 30.0
"""A server that asks for a longer pause is not waited for."""
TRY_AGAIN = frozenset({429, 502, 503, 504})
PIECE = 64 * 1024
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


LONG = {"limit": 200}
"""The longest page there is, for lists that are mostly read whole."""


@dataclass(frozen=True, slots=True)
class FileBody:
    """A body read from a file while it is sent; ``progress`` is called with the bytes sent."""

    file: IO[bytes]
    size: int
    progress: Callable[[int], None]

    def pieces(self) -> Iterator[bytes]:
        """The whole file, from the start."""
        self.file.seek(0)
        sent = 0
        while piece := self.file.read(PIECE):
            yield piece
            sent += len(piece)
            self.progress(sent)


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request below ``/api/v1/`` and how its answer is read. ``repeatable``: sending it twice does the same as
    once, so that it is retried when the network fails."""

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    params: Params = field(default_factory=dict)
    content: bytes | FileBody | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = False

    def steps(self) -> Steps[T]:
        """The tries, one after another, until the answer. Raises BerthError."""
        for pause in (*PAUSES, None):
            try:
                response: httpx.Response = yield self
            except httpx.HTTPError as error:
                failed = failure(error)
                sent = not isinstance(error, NEVER_SENT)
                if pause is None or isinstance(failed, TlsFailed) or (sent and not self.repeatable):
                    raise failed from error
            else:
                if response.is_success:
                    return self.read(response)
                refused = problem_of(response)
                asked = refused.retry_after_s or 0.0
                worth_it = self.repeatable and response.status_code in TRY_AGAIN and asked <= LONGEST_PAUSE
                if pause is None or not worth_it:
                    raise refused
                pause = max(pause, asked)
            yield Pause(pause * (0.5 + random.random()))
        raise AssertionError("the last try returns or raises")


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause between two tries."""

    seconds: float


@dataclass(frozen=True, slots=True)
class LocalWork(Generic[T]):
    """Work on this machine that takes a while and asks no server."""

    do: Callable[[], T]


Steps = Generator[Call[Any] | Pause | LocalWork[Any], Any, T]
"""What to do next, until a result is there: a client sends each call, sleeps each pause, does each work, and sends back
the response or the work's result."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A list that comes in pages."""

    path: str
    row: type[T]
    params: Params = field(default_factory=dict)

    def first(self) -> Call[Page[T]]:
        return self._page(self.params)

    def after(self, page: Page[T]) -> Call[Page[T]] | None:
        """The next page. Only the query of the server's address is used: a token never follows a link elsewhere."""
        if page.next is None:
            return None
        query = dict(parse_qsl(urlsplit(page.next).query))
        return self._page({**self.params, **{name: query[name] for name in ("cursor", "offset") if name in query}})

    def _page(self, params: Params) -> Call[Page[T]]:
        return get(self.path, Page[self.row], params)  # type: ignore[name-defined]


def get(path: str, answer: type[T], params: Params | None = None) -> Call[T]:
    """A call that reads."""
    return Call("GET", path, reading(answer), not_none(params or {}), repeatable=True)


def send(method: str, path: str, answer: type[T], body: Any = None, *, repeatable: bool = False) -> Call[T]:
    """A call with a JSON body, or none."""
    content = None if body is None else msgspec.json.encode(body)
    headers = {} if body is None else {"Content-Type": "application/json"}
    return Call(method, path, reading(answer), content=content, headers=headers, repeatable=repeatable)


def not_none(params: Params) -> dict[str, Any]:
    """The parameters that are not None."""
    return {name: value for name, value in params.items() if value is not None}


def reading(answer: type[T]) -> Callable[[httpx.Response], T]:
    """Decodes a response and checks it against the type."""

    def read(response: httpx.Response) -> T:
        try:
            return decoded(response.content, answer)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadAnswer(
                f"the answer of {response.request.url.copy_with(query=None)} is none of Berth's, or of a version "
                f"that this client does not know ({error})"
            ) from error

    return read


def nothing(response: httpx.Response) -> None:
    """Reads an answer without a body."""


def text(response: httpx.Response) -> str:
    """Reads an answer that is plain text."""
    return response.text


def problem_of(response: httpx.Response) -> Problem:
    """The refusal in a response. Raises BadAnswer where something other than Berth answered."""
    where = response.request.url
    if response.is_redirect:
        raise BadAnswer(f"{where} is moved to {response.headers.get('Location', '?')}: use that server's address")
    kind = kind_of(response.status_code)
    wait = _seconds(response.headers.get("Retry-After", ""))
    if "json" not in response.headers.get("Content-Type", ""):
        if response.status_code < 500:
            raise BadAnswer(f"{where} answered {response.status_code}, and not as Berth does: is the address right?")
        return kind(
            response.status_code, response.reason_phrase, f"the server answered {response.status_code}", (), wait
        )
    document = reading(_Document)(response)
    faults = tuple(Fault(one.path, one.message, one.code, one.line) for one in document.errors)
    return kind(response.status_code, document.title, document.detail, faults, wait)


class _Fault(msgspec.Struct):
    path: str = ""
    message: str = ""
    code: str = ""
    line: int | None = None


class _Document(msgspec.Struct):
    title: str = ""
    detail: str = ""
    errors: list[_Fault] = []


def _seconds(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdecimal() else None


def failure(error: httpx.HTTPError) -> Unreachable:
    """The error for a failed connection."""
    return unreachable(str(error.request.url.join("/")).rstrip("/"), error)


def unreachable(url: str, error: BaseException) -> Unreachable:
    """The failed connection as an error with its cause in words."""
    for cause in _chain(error):
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return tls_failure(url, cause)
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        return Unreachable(url, "it did not answer in time")
    reason = next((str(cause.strerror) for cause in _chain(error) if isinstance(cause, OSError) and cause.strerror), "")
    return Unreachable(url, reason or str(error) or type(error).__name__)


# OpenSSL's numbers (x509_vfy.h) of what is wrong with a certificate.
_NOT_YET_VALID, _EXPIRED, _OTHER_NAME = 9, 10, (62, 64)


def tls_failure(url: str, error: ssl.SSLError) -> TlsFailed:
    """What is wrong with the certificate, and what to do about it."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        cure = "Is it the port of HTTPS? An address without TLS begins with http://."
        return TlsFailed(url, f"it does not speak TLS there ({error.reason or error})", cure)
    clock = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    if error.verify_code == _EXPIRED:
        cure = f"Tell an administrator to renew it, unless this computer's clock is wrong: it says {clock}."
        return TlsFailed(url, "its certificate has expired", cure)
    if error.verify_code == _NOT_YET_VALID:
        return TlsFailed(url, "its certificate is not valid yet", f"Set this computer's clock right: it says {clock}.")
    if error.verify_code in _OTHER_NAME:
        cure = "Write the address with the name that the certificate has."
        return TlsFailed(url, f"its certificate is for another name ({error.verify_message.rstrip('.')})", cure)
    cure = "If its certificate comes from an authority of your own, name that by BERTH_CA_FILE."
    return TlsFailed(url, f"TLS failed ({error.verify_message})", cure)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
