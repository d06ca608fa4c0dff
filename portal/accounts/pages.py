"""What pages of accounts share: the type of their requests, and what the log-in page says."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails

from portal.accounts.first import first_needed
from portal.accounts.models import User


class PageRequest(HttpRequest):
    """A request of somebody who is signed in, as the middlewares leave it."""

    user: User
    htmx: HtmxDetails


def login_words() -> dict[str, object]:
    """By what ways one may log in here."""
    return {"passwords": settings.PASSWORDS, "nobody_administers": first_needed()}
