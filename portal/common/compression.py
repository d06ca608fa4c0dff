"""Gzip compression of pages."""

from __future__ import annotations

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware

LEAST_BYTES = 1000
"""Anything shorter fits into a packet or two uncompressed."""


class CompressedPages(GZipMiddleware):
    """Compresses HTML that is complete and long enough, for clients that accept gzip. Nothing else: logs and downloads
    stream in pieces that must not wait for each other, and their lengths, ranges and ETags are those of the raw bytes;
    static files were compressed when they were collected.

    Against BREACH, Django's middleware pads each page with up to 100 random bytes, so that its length tells nothing of
    its content; the forms' CSRF tokens differ each time.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """The response, compressed where that applies."""
        page = response.headers.get("Content-Type", "").startswith("text/html")
        if response.streaming or not page or len(getattr(response, "content", b"")) < LEAST_BYTES:
            return response
        return super().process_response(request, response)
