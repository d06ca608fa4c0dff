"""What an address asks for."""

from __future__ import annotations

from django.http import HttpRequest


def number_asked(request: HttpRequest, name: str) -> int:
    """A whole number of the address; 0 where there is none."""
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0
