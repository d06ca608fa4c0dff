"""Numbers from a page's query string or a form's hidden fields."""

from __future__ import annotations

from django.http import HttpRequest


def number_asked(request: HttpRequest, name: str) -> int:
    """A whole number from the query string; 0 if absent."""
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0


def number_posted(request: HttpRequest, name: str) -> int:
    """A whole number from a form's hidden field; 0 if absent."""
    return whole_number(request.POST.get(name, "")) or 0


def numbers_posted(request: HttpRequest, name: str, *, most: int) -> list[int]:
    """Comma-separated whole numbers from a form's hidden field; at most ``most``."""
    found = (whole_number(one) for one in request.POST.get(name, "").split(",")[:most])
    return [one for one in found if one is not None]


def whole_number(text: str) -> int | None:
    """The text as a number that fits a database column; None if it is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
