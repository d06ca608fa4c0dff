"""How the web process takes an HTTP request."""

from __future__ import annotations

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest, HttpResponseBase


class InOneThread(ASGIHandler):
    """A request goes through middleware and view in one thread, as under WSGI, since none of ours is asynchronous.
    Django's own handler would go back to the event loop between the two, which costs as much as a small answer. Long
    answers are sent by the event loop, so that slow readers hold no thread."""

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        return await sync_to_async(self.get_response)(request)
