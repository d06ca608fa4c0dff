"""What an address asks for, and how pages name a priority."""

from __future__ import annotations

from django.http import HttpRequest

from portal.jobs.spec import PRIORITY_CLASSES

PRIORITY_WORDS = {number: name for name, number in PRIORITY_CLASSES.items()}


def number_asked(request: HttpRequest, name: str) -> int:
    """A whole number of the address; 0 where there is none."""
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0
