"""Problem documents (RFC 9457, ``application/problem+json``): the one format of the API's refusals."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from django.conf import settings
from django.core.exceptions import DisallowedHost, PermissionDenied, RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.translation import gettext as _
from django.views.defaults import page_not_found, server_error
from rest_framework import exceptions, status
from rest_framework.response import Response
from rest_framework.views import exception_handler

from portal.common.errors import Fault, Invalid, Refused, TooLarge, Unavailable
from portal.common.outages import outage
from portal.common.templatetags.frontend import size

MEDIA_TYPE = "application/problem+json"
TITLES = {
    400: "Not valid",
    401: "Not signed in",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    406: "Not acceptable",
    409: "Conflict",
    413: "Too large",
    415: "Unsupported media type",
    416: "Range not satisfiable",
    429: "Too many requests",
    500: "Internal error",
    503: "Unavailable",
}
API_PREFIX = "/api/"


def problem(
    status_code: int, detail: str, faults: tuple[Fault, ...] = (), title: str = "", instance: str = ""
) -> dict[str, Any]:
    """Builds a document; ``type`` is about:blank, as ``title`` and ``status`` say all that programs need."""
    document: dict[str, Any] = {
        "type": "about:blank",
        "title": title or TITLES.get(status_code, "Error"),
        "status": status_code,
        "detail": detail,
    }
    if instance:
        document["instance"] = instance
    if faults:
        document["errors"] = [_fault(fault) for fault in faults]
    return document


def handler(error: Exception, context: Mapping[str, Any]) -> Response | None:
    """Django REST framework's exception handler. None for a bug of ours, which becomes a 500."""
    if isinstance(error, RequestDataTooBig):
        error = TooLarge(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
    if isinstance(error, Refused):
        return _refused(error)
    response = exception_handler(error, dict(context))
    if response is None:
        return None
    response.data = _from_framework(error, response)
    response.content_type = MEDIA_TYPE
    return response


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """400 for a request that could not be read, 413 for a form that is too large."""
    if isinstance(exception, DisallowedHost):
        return _other_name(request)
    too_large = isinstance(exception, RequestDataTooBig)
    status_code = 413 if too_large else 400
    if request.path.startswith(API_PREFIX):
        return _plain(status_code, "The request could not be read.")
    if not too_large:
        return render(request, "400.html", status=status_code)
    words = _("At most %(most)s of text are taken. Nothing was changed. Go back: what you typed is still there.")
    detail = words % {"most": size(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)}
    return render(request, "error.html", {"title": _("Too large"), "detail": detail}, status=status_code)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """404 for an unknown path."""
    if request.path.startswith(API_PREFIX):
        return _plain(404, "There is nothing at this address.")
    return page_not_found(request, exception)


def internal_error(request: HttpRequest) -> HttpResponseBase:
    """503 while a service that the portal needs is down, 500 for a bug of ours; details go to the log, not into the
    response."""
    if (error := sys.exception()) is not None and outage(error):
        return _away(request)
    if request.path.startswith(API_PREFIX):
        return _plain(500, "The portal made a mistake; an administrator finds it in the portal's log.")
    return server_error(request)


def _other_name(request: HttpRequest) -> HttpResponse:
    """Shows nothing of the host that was asked for: it may contain anything."""
    if request.path.startswith(API_PREFIX):
        return _plain(400, f"This portal is at {settings.URL}, and knows no other name (BERTH_ALLOWED_HOSTS).")
    return HttpResponse(render_to_string("host.html", {"url": settings.URL}), status=400)


def _away(request: HttpRequest) -> HttpResponse:
    if request.path.startswith(API_PREFIX):
        words = (
            "A part that the portal needs is away; an administrator finds which in the portal's log. Try again later."
        )
        response = _plain(503, words)
    else:
        response = HttpResponse(render_to_string("503.html"), status=503)
    response.headers["Retry-After"] = str(Unavailable.retry_after_s)
    return response


def _plain(status_code: int, detail: str) -> HttpResponse:
    return HttpResponse(json.dumps(problem(status_code, detail)), content_type=MEDIA_TYPE, status=status_code)


def _refused(error: Refused) -> Response:
    faults = error.faults if isinstance(error, Invalid) else ()
    response = Response(problem(error.status, error.detail, faults, error.title), status=error.status)
    response.content_type = MEDIA_TYPE
    if error.retry_after_s is not None:
        response.headers["Retry-After"] = str(error.retry_after_s)
    if error.status == status.HTTP_401_UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = 'Bearer realm="berth"'
    return response


def _from_framework(error: Exception, response: Response) -> dict[str, Any]:
    if isinstance(error, exceptions.ValidationError):
        faults = faults_in(error)
        return problem(response.status_code, _sentence(faults), faults)
    if isinstance(error, Http404 | PermissionDenied):
        return problem(response.status_code, str(error) or TITLES[response.status_code])
    detail = error.detail if isinstance(error, exceptions.APIException) else str(error)
    return problem(response.status_code, str(detail))


def _sentence(faults: tuple[Fault, ...]) -> str:
    """The first fault's message; of several, each with its path, since the messages may be equal."""
    if len(faults) == 1:
        return faults[0].message
    return "; ".join(f"{fault.path}: {fault.message}" if fault.path else fault.message for fault in faults[:3])


def faults_in(error: exceptions.ValidationError) -> tuple[Fault, ...]:
    """All faults that a serializer found."""
    return tuple(_flatten(error.detail, error.get_codes(), ()))


def _flatten(detail: Any, codes: Any, path: tuple[str, ...]) -> Iterator[Fault]:
    """Flattens a serializer's nested errors, with dotted paths."""
    if isinstance(detail, Mapping):
        for key, value in detail.items():
            inner = path if key == "non_field_errors" else (*path, str(key))
            yield from _flatten(value, codes[key], inner)
    elif isinstance(detail, list):
        for item, code in zip(detail, codes, strict=True):
            yield from _flatten(item, code, path)
    else:
        yield Fault(".".join(path), str(detail), str(codes))


def _fault(fault: Fault) -> dict[str, Any]:
    document = {"path": fault.path, "message": fault.message, "code": fault.code}
    return document if fault.line is None else {**document, "line": fault.line}
