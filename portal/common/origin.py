"""Origin of a change, for the audit log: by what channel, and from which address."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from ipaddress import ip_address
from typing import NamedTuple

from django.http import HttpRequest, HttpResponse


class Origin(NamedTuple):
    """``via``: ``web`` (a browser, or a request without a token), ``token berth_…`` (its prefix), ``socket``, or
    ``system`` for commands on the server and for the portal itself. ``address`` is empty if there is none."""

    via: str = "system"
    address: str = ""


_origin: ContextVar[Origin] = ContextVar("origin", default=Origin())  # noqa: B039  # a tuple never changes


def origin() -> Origin:
    """The origin of the current request."""
    return _origin.get()


def origin_token(prefix: str) -> None:
    """Notes that the request was authenticated by the token with this prefix."""
    _origin.set(_origin.get()._replace(via=f"token {prefix}"))


def origin_socket(address: str) -> None:
    """Notes that the current task acts for a websocket from this address."""
    _origin.set(Origin("socket", _plain(address)))


def _plain(address: str) -> str:
    """The address without its interface (``fe80::1%eth0``), as databases take it; empty if it is none."""
    with suppress(ValueError):
        return str(ip_address(address.partition("%")[0]))
    return ""


class RequestOrigin:
    """Middleware that sets the origin for the duration of a request."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        before = _origin.get()
        _origin.set(Origin("web", _plain(request.META.get("REMOTE_ADDR", ""))))
        try:
            return self.get_response(request)
        finally:
            _origin.set(before)
