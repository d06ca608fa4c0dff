"""Middleware for refusals and expired sessions on pages."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render, resolve_url
from django.utils.translation import gettext
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

from portal.common.errors import Refused


class RefusalPages:
    """Renders a refusal raised by a page view as an error page. (REST has its own handler.)"""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if not isinstance(error, Refused):
            return None
        context = {"title": gettext(error.title), "detail": error.detail, "missing": error.status == 404}
        response = render(request, "error.html", context, status=error.status)
        if error.retry_after_s is not None:
            response.headers["Retry-After"] = str(error.retry_after_s)
        return response


class LogInWhole:
    """After the session has ended, an htmx request must not get the log-in form as its fragment: the whole page goes to
    the log-in, and comes back afterwards."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        htmx: HtmxDetails = request.htmx  # type: ignore[attr-defined]  # its middleware comes before
        log_in = resolve_url(settings.LOGIN_URL)
        if not htmx or response.status_code != 302 or response.headers["Location"].partition("?")[0] != log_in:
            return response
        page = htmx.current_url_abs_path or request.get_full_path()
        return HttpResponseClientRedirect(redirect_to_login(page).url)
