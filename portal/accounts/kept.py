"""Keeps a form that is posted after its session has ended: it waits on the log-in page, and is sent afterwards.

It is stored only in hidden fields of that page, so that nobody can fill the portal's memory before logging in. The form
had a CSRF token, like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from urllib.parse import urlsplit, urlunsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import resolve_url

from portal.accounts.pages import login_show

PREFIX = "kept-"
_NEVER = ("csrfmiddlewaretoken",)
_SECRET = frozenset({"password", "old", "new", "value", "secret", "table"})
"""A form with one of these, or with a file, is not kept at all: its values would be on a page that anyone at that
browser may read, and without them the form would do something else."""

Fields = list[tuple[str, str]]


class KeptForms:
    """Middleware that answers a POST of an expired session with the log-in page holding the form, in place of a
    redirect."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        login = resolve_url(settings.LOGIN_URL)
        sent_there = response.status_code == 302 and response.headers["Location"].startswith(f"{login}?")
        if request.method != "POST" or request.headers.get("HX-Request") or not sent_there:
            return response
        kept = [(f"{PREFIX}{name}", value) for name, value in fields_to_keep(request)]
        target = request.get_full_path() if kept else page_of(request)
        return login_show(request, target=target, kept=kept, lost_file=bool(request.FILES), lost=not kept, status=401)


def from_here(request: HttpRequest) -> bool:
    """Whether the browser says that a page of this very site sent the request."""
    said = urlsplit(request.headers.get("Origin") or request.headers.get("Referer", ""))
    return (said.scheme, said.netloc) == (request.scheme, request.get_host())


def page_of(request: HttpRequest) -> str:
    """The URL of the page with the form, since many forms post to a URL that shows nothing by itself."""
    sent_by = urlsplit(request.headers.get("Referer", ""))
    if sent_by.netloc != request.get_host():
        return request.get_full_path()
    # Two leading slashes would lead to another site.
    return urlunsplit(("", "", "/" + sent_by.path.lstrip("/\\"), sent_by.query, ""))


def fields_to_keep(request: HttpRequest) -> Fields:
    """The posted fields, if they may be put on a page; else none."""
    if request.FILES or any(name in _SECRET or "password" in name for name in request.POST):
        return []
    return [(name, value) for name, value in _pairs(request.POST) if name not in _NEVER]


def fields_kept(posted: QueryDict) -> Fields:
    """The fields kept on a log-in page, under their original names."""
    return [(name.removeprefix(PREFIX), value) for name, value in _pairs(posted) if name.startswith(PREFIX)]


def _pairs(posted: QueryDict) -> Iterable[tuple[str, str]]:
    return ((name, str(value)) for name, values in posted.lists() for value in values)
