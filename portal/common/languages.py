"""The language of a page: the reader's choice, else what the browser asks for. Programs are answered in English."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import translation
from django.utils.cache import patch_vary_headers
from django.utils.translation.trans_real import parse_accept_lang_header

PROGRAMS = ("/api/", "/rest-server/", "/node/code/", "/healthz")
"""Path prefixes read by programs, which get English."""

DOCS = "/api/docs"
"""The one page below them that people read."""

CHOICES = tuple(code for code, _ in settings.LANGUAGES)
A_YEAR_S = 365 * 24 * 3600


class PageLanguage:
    """Activates the reader's language for each page. For a program's request nothing is looked up or set."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info.startswith(PROGRAMS) and request.path_info != DOCS:
            return self.get_response(request)
        language = page_language(request)
        with translation.override(language):
            response = self.get_response(request)
        patch_vary_headers(response, ("Accept-Language",))
        response.headers.setdefault("Content-Language", language)
        return response


def page_language(request: HttpRequest) -> str:
    """The account's choice, else the browser's cookie, else the best match for its ``Accept-Language``."""
    chosen: str = getattr(request.user, "language", "")
    return chosen if chosen in CHOICES else translation.get_language_from_request(request)


def asked_language(request: HttpRequest) -> str:
    """The best match for a program's ``Accept-Language``; English if none is available."""
    return _best(request.headers.get("Accept-Language", ""))


def socket_language(*, chosen: str, kept: str, accepted: str) -> str:
    """The language of a page's websocket, as of the page: the account's choice, else the browser's cookie (``kept``),
    else the best match for its ``Accept-Language`` (``accepted``)."""
    return next((one for one in (chosen, kept) if one in CHOICES), "") or _best(accepted)


def _best(accepted: str) -> str:
    for code, _ in parse_accept_lang_header(accepted):
        try:
            return translation.get_supported_language_variant(code)
        except LookupError:
            continue
    return "en"


def language_keep(response: HttpResponse, language: str) -> None:
    """Sets the language cookie, for the log-in page and for visitors without an account. Empty: deletes it."""
    if not language:
        response.delete_cookie(settings.LANGUAGE_COOKIE_NAME, samesite="Lax")
        return
    response.set_cookie(
        settings.LANGUAGE_COOKIE_NAME, language, max_age=A_YEAR_S, samesite="Lax", secure=settings.HTTPS, httponly=True
    )
