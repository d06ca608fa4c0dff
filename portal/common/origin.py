"""Where a change comes from, for the audit log: by what way, and from which address."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from ipaddress import ip_address
from typing import NamedTuple

from django.http import HttpRequest, HttpResponse


class Origin(NamedTuple):
    """``via``: ``web`` (a browser, or a request without a token), ``token berth_…`` (how it begins), ``socket``, or
    ``system`` for a command on the server and for what the portal does by itself. ``address`` is empty where there is
    none."""

    via: str = "system"
    address: str = ""


_origin: ContextVar[Origin] = ContextVar("origin", default=Origin())  # noqa: B039  # a tuple never changes


def origin() -> Origin:
    """Of the request that is being answered."""
    return _origin.get()


def origin_token(prefix: str) -> None:
    """The request was signed in by the token that begins so."""
    _origin.set(_origin.get()._replace(via=f"token {prefix}"))


def origin_socket(address: str) -> None:
    """What this task does comes from a websocket of that address."""
    _origin.set(Origin("socket", _plain(address)))


def _plain(address: str) -> str:
    """The address without an interface (``fe80::1%eth0``), as databases take it; empty where a proxy names none."""
    with suppress(ValueError):
        return str(ip_address(address.partition("%")[0]))
    return ""


class RequestOrigin:
    """Notes each request's origin for as long as it is answered."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        before = _origin.get()
        _origin.set(Origin("web", _plain(request.META.get("REMOTE_ADDR", ""))))
        try:
            return self.get_response(request)
        finally:
            _origin.set(before)
