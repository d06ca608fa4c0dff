"""A form that is sent after its session has ended is not lost: it waits on the log-in page, and goes on from there.

It is kept nowhere but on that page, in fields that are not shown, so that nobody can fill the portal's memory before
logging in. What was sent had the form's own sign, like any other.
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
"""A form with one of these, or with a file, is not kept at all: a page that anybody at that browser may read would hold
it, and without it the form would do something else."""

Fields = list[tuple[str, str]]


class KeptForms:
    """Instead of sending somebody whose session has ended to the log-in page, shows it with what they had sent."""

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
        return login_show(
            request, target=target, kept=kept, lost_file=bool(request.FILES), lost=not kept, status=401
        )  # fmt: skip


def from_here(request: HttpRequest) -> bool:
    """The browser says that a page of this very site has sent it."""
    said = urlsplit(request.headers.get("Origin") or request.headers.get("Referer", ""))
    return (said.scheme, said.netloc) == (request.scheme, request.get_host())


def page_of(request: HttpRequest) -> str:
    """The page with the form that was sent, as many forms go to an address that shows nothing by itself."""
    sent_by = urlsplit(request.headers.get("Referer", ""))
    if sent_by.netloc != request.get_host():
        return request.get_full_path()
    # Two slashes at the beginning would lead to another site.
    return urlunsplit(("", "", "/" + sent_by.path.lstrip("/\\"), sent_by.query, ""))


def fields_to_keep(request: HttpRequest) -> Fields:
    """What was sent, as it may wait on a page; nothing where it holds what must not."""
    if request.FILES or any(name in _SECRET or "password" in name for name in request.POST):
        return []
    return [(name, value) for name, value in _pairs(request.POST) if name not in _NEVER]


def fields_kept(posted: QueryDict) -> Fields:
    """What waits on a log-in page, as it was sent first: name and value."""
    return [(name.removeprefix(PREFIX), value) for name, value in _pairs(posted) if name.startswith(PREFIX)]


def _pairs(posted: QueryDict) -> Iterable[tuple[str, str]]:
    return ((name, str(value)) for name, values in posted.lists() for value in values)
