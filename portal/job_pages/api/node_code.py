"""The one address that agents ask: the code of a task attempt, by the signed address that its order carries. No part
of the REST API: no account stands behind it."""

from __future__ import annotations

import re

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.views.decorators.http import require_GET

from nodes.protocol.packed import MEDIA_TYPE
from portal.code.store import CodeFiles
from portal.code.tickets import ticket_open
from portal.common.streaming import Streamed, aside
from portal.jobs.selectors.code import code_ordered

_FROM = re.compile(r"bytes=([0-9]{1,15})-")


@require_GET
def node_code(request: HttpRequest, signed: str) -> HttpResponseBase:
    """The archive, from the byte on that a ``Range`` of the form ``bytes=N-`` names. 403 for an address that is not
    ours or too old, 404 when it is not ordered any more, 410 when the archive is gone, 503
    while all of them are."""
    ticket = ticket_open(signed)
    if ticket is None:
        return _refusal(403, "The address is not signed by this portal, or too old.")
    if not code_ordered(ticket=ticket):
        return _refusal(404, "Nobody orders this task attempt from this node any more.")
    if not settings.CODE_DIR.is_dir():
        return _refusal(503, "The portal's data folder is not there now.")
    files = CodeFiles(settings.CODE_DIR)
    try:
        size = files.path(ticket.sha256).stat().st_size
        start = _start(request, size)
        pieces = files.read(ticket.sha256, start)
    except FileNotFoundError:
        return _refusal(410, "The archive is gone.")
    response = Streamed(
        aside(pieces), still=lambda: code_ordered(ticket=ticket), content_type=MEDIA_TYPE, status=206 if start else 200,
        headers={"Content-Length": str(size - start)},
    )  # fmt: skip
    if start:
        response.headers["Content-Range"] = f"bytes {start}-{size - 1}/{size}"
    return response


def _start(request: HttpRequest, size: int) -> int:
    """Where to begin; at the first byte where the header asks for anything else."""
    asked = _FROM.fullmatch(request.headers.get("Range", ""))
    return int(asked[1]) if asked and int(asked[1]) < size else 0


def _refusal(status: int, sentence: str) -> HttpResponse:
    return HttpResponse(f"{sentence}\n", status=status, content_type="text/plain; charset=utf-8")
