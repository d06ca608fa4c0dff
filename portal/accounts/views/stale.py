"""CSRF failures: a form whose token is not that of the present session."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.debug import sensitive_post_parameters

from portal.accounts.kept import Fields, fields_kept, fields_to_keep, from_here, page_of


@sensitive_post_parameters()
def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Django's CSRF failure view. Mostly somebody logged in again beside an open page, as each log-in has a new token;
    but it may be another site's form. So only a form sent by one of our own pages for a logged-in user is shown and
    offered again, and nothing is done until that person confirms it."""
    target, kept = _offered(request)
    context = {
        "target": target,
        "kept": kept,
        "lost_file": from_here(request) and bool(request.FILES),
        "back": _back(request),
    }
    template = "accounts/stale.html" if kept else "403_csrf.html"
    return render(request, template, context, status=403)


def _back(request: HttpRequest) -> str:
    """The page with the form, by its Referer; the home page without one, or if it was the log-in page."""
    page = page_of(request) if "Referer" in request.headers else "/"
    return "/" if urlsplit(page).path == resolve_url("login") else page


def _offered(request: HttpRequest) -> tuple[str, Fields]:
    """The URL the form goes to, and its fields; none if it may not be offered."""
    here = request.get_full_path()
    if not request.user.is_authenticated or request.headers.get("HX-Request") or not from_here(request):
        return here, []
    if request.path != resolve_url("login"):
        return here, fields_to_keep(request)
    waited = request.POST.get("next", "")
    safe = url_has_allowed_host_and_scheme(waited, {request.get_host()}, require_https=request.is_secure())
    return waited, fields_kept(request.POST) if safe else []
