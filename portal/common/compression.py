"""Pages are sent compressed."""

from __future__ import annotations

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware

LEAST_BYTES = 1000
"""What is shorter fits into a packet or two as it is."""


class CompressedPages(GZipMiddleware):
    """Compress what is HTML, whole and long enough, for who takes gzip. Everything else goes out as it was made: logs
    and downloads come in pieces that must not wait for each other, have lengths, parts and marks (``Range``, ``ETag``)
    that are those of the bytes themselves, and static files were compressed when they were collected.

    Django's own puts up to 100 random bytes before each page, so that its length tells nothing of what is on it
    (BREACH), and the forms' tokens are another each time.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """The answer, or its compressed twin."""
        page = response.headers.get("Content-Type", "").startswith("text/html")
        if response.streaming or not page or len(getattr(response, "content", b"")) < LEAST_BYTES:
            return response
        return super().process_response(request, response)
