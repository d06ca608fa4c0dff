"""The type of a page view's request."""

from __future__ import annotations

from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails

from portal.accounts.models import User


class PageRequest(HttpRequest):
    """A request of somebody who is signed in, as the middlewares leave it."""

    user: User
    htmx: HtmxDetails
