"""Serves the OpenAPI document, made once per process since it is the same for everybody, and the page to read it in."""

from __future__ import annotations

import gzip
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.shortcuts import render
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularJSONAPIView
from rest_framework.request import Request


@dataclass(frozen=True, slots=True)
class Document:
    """The document's text, the same compressed, and its ETag."""

    text: bytes
    packed: bytes
    tag: str


class DocumentView(SpectacularJSONAPIView):
    """Serves the document; 304 for a client that has it already."""

    made: Document | None = None

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        if self.made is None:
            described = self._get_schema_response(request)  # type: ignore[no-untyped-call]
            type(self).made = _written(described.data)
        assert self.made is not None
        return _answer(request._request, self.made)


def _written(described: dict[str, Any]) -> Document:
    text = json.dumps(described, ensure_ascii=False, separators=(",", ":")).encode()
    return Document(text, gzip.compress(text, mtime=0), f'"{hashlib.sha256(text).hexdigest()[:16]}"')


def _answer(request: HttpRequest, made: Document) -> HttpResponse:
    if request.headers.get("If-None-Match") == made.tag:
        answer: HttpResponse = HttpResponseNotModified()
    elif "gzip" in request.headers.get("Accept-Encoding", ""):
        answer = HttpResponse(made.packed, content_type="application/json", headers={"Content-Encoding": "gzip"})
    else:
        answer = HttpResponse(made.text, content_type="application/json")
    answer["ETag"], answer["Cache-Control"] = made.tag, "no-cache"
    patch_vary_headers(answer, ["Accept-Encoding"])
    return answer


@require_safe
def document_page(request: HttpRequest) -> HttpResponse:
    """Swagger UI for the document. Public; requests tried there have the reader's own rights."""
    return render(request, "api_docs.html")
