"""Identifies a listener by its answers to questions that change nothing, and only if it asks for no authentication.

Its port means nothing: anything may listen anywhere. Answers are compared and thrown away, nothing of them is shown.
"""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable
from functools import partial

from nodes.agent.listeners.exchange import SocketAddress, exchange
from nodes.protocol.states import ListenerKind

ANSWER_S = 1.0
"""Timeout of one question,"""
LISTENER_S = 5.0
"""and of all questions to one listener."""
LINE = 128
"""Bytes read of a one-line answer."""

_OTHERS = re.compile(rb"SSH-|-|.{3}\x00\x0a|220[ -]", re.DOTALL)
"""Answers of something else, or of something that wants to know who asks: Redis with a password begins with a dash,
MySQL with its greeting, which does not say whether it wants a password."""
_OK = re.compile(rb"HTTP/1\.[01] 200\b")
_METRIC = re.compile(rb"^# (HELP|TYPE) [a-zA-Z_:]", re.MULTILINE)

_PAGES: tuple[tuple[str, ListenerKind, tuple[re.Pattern[bytes], ...]], ...] = (
    ("/v1/agent/self", ListenerKind.CONSUL, (re.compile(rb'"Config"\s*:'), re.compile(rb'"Datacenter"\s*:'))),
    ("/pods", ListenerKind.KUBELET, (re.compile(rb'"kind"\s*:\s*"PodList"'),)),
    (
        "/",
        ListenerKind.ELASTICSEARCH,
        (re.compile(rb'"tagline"\s*:\s*"(You Know, for Search|The OpenSearch Project)'),),
    ),
    ("/api/status", ListenerKind.JUPYTER, (re.compile(rb'"kernels"\s*:\s*\d'), re.compile(rb'"last_activity"\s*:'))),
    ("/api/version", ListenerKind.RAY, (re.compile(rb'"ray_version"\s*:'),)),
    ("/metrics", ListenerKind.METRICS, (_METRIC,)),
)
"""Pages asked of a web server that is neither Docker nor etcd, with the signs of who answers; metrics last, since
several of the others have some, too."""

_PING = b"*1\r\n$4\r\nPING\r\n"
_RANGE = b'{"key":"AA==","limit":"1","count_only":true}'
_STARTUP = struct.pack(">I", 196608) + b"user\0postgres\0database\0postgres\0\0"
_LIST = b"\x10listDatabases\0\x01\0\0\0\x08nameOnly\0\x01\x02$db\0\x06\0\0\0admin\0"

Ask = Callable[..., bytes]


def identify(address: SocketAddress, ends_at: float | None = None) -> ListenerKind | None:
    """The kind of what answers there without authentication; None: nothing known, or not in time."""
    last = time.monotonic() + LISTENER_S
    ask = partial(_asked, address, min(last, ends_at or last))
    try:
        return _kind(ask)
    except OSError:  # gone, or it takes no connection
        return None


def _asked(address: SocketAddress, last: float, request: bytes, **how: object) -> bytes:
    now = time.monotonic()
    if now >= last:
        raise TimeoutError("it has been asked for long enough")
    return exchange(address, request, min(last, now + ANSWER_S), **how)  # type: ignore[arg-type]


def _kind(ask: Ask) -> ListenerKind | None:
    answer = ask(_PING, most=LINE, whole=_is_line)
    if answer.startswith(b"+PONG\r\n"):
        return ListenerKind.REDIS
    if _OTHERS.match(answer):
        return None
    if not answer.startswith(b"HTTP/") and ask(b"version\r\n", most=LINE, whole=_is_line).startswith(b"VERSION "):
        return ListenerKind.MEMCACHED
    version = ask(_get("/version"))
    if version.startswith(b"HTTP/") and b"HTTPS" not in version:
        return _web(ask, version)
    if (secured := _secured(ask)) is not None:
        return _web(partial(ask, tls=True), secured)
    if ask(_sized(_STARTUP), most=9, whole=lambda read: len(read) == 9) == b"R\0\0\0\x08\0\0\0\0":
        return ListenerKind.POSTGRESQL
    return ListenerKind.MONGODB if _lists_databases(ask) else None


def _is_line(read: bytes) -> bool:
    return read.endswith(b"\n")


def _secured(ask: Ask) -> bytes | None:
    """Its answer over TLS; None where it speaks none."""
    try:
        return ask(_get("/version"), tls=True)
    except OSError:
        return None


def _web(ask: Ask, version: bytes) -> ListenerKind | None:
    """The kind of a web server; ``version``: its answer about ``/version``."""
    if _OK.match(version) and b'"MinAPIVersion"' in version:
        return ListenerKind.DOCKER
    if _OK.match(version) and b'"etcdserver"' in version:
        counted = ask(_post("/v3/kv/range", _RANGE))
        return ListenerKind.ETCD if _OK.match(counted) and b'"cluster_id"' in counted else None
    for path, kind, signs in _PAGES:
        page = ask(_get(path))
        if _OK.match(page) and all(sign.search(page) for sign in signs):
            return kind
    return None


def _get(path: str) -> bytes:
    return f"GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept: */*\r\nConnection: close\r\n\r\n".encode()


def _post(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body


def _sized(body: bytes) -> bytes:
    """A packet of PostgreSQL."""
    return struct.pack(">I", len(body) + 4) + body


def _lists_databases(ask: Ask) -> bool:
    """Whether a MongoDB lists its databases to anybody."""
    document = struct.pack("<I", len(_LIST) + 5) + _LIST + b"\0"
    answer = ask(
        struct.pack("<IIIIIB", 21 + len(document), 1, 0, 2013, 0, 0) + document,
        whole=lambda read: len(read) >= 4 and len(read) >= struct.unpack_from("<I", read)[0],
    )
    return b"\x04databases\0" in answer and b"\x01ok\0" + struct.pack("<d", 1.0) in answer
