"""Refusals shown as pages."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from portal.common.errors import RateLimited, Refused


class RefusalPages:
    """A refusal that leaves a page view becomes a page that says what happened. (REST answers its own.)"""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if not isinstance(error, Refused):
            return None
        response = render(request, "error.html", {"title": error.title, "detail": error.detail}, status=error.status)
        if isinstance(error, RateLimited):
            response.headers["Retry-After"] = str(error.retry_after_s)
        return response
