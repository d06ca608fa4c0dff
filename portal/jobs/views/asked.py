"""What an address or a form's hidden fields ask for."""

from __future__ import annotations

from django.http import HttpRequest


def number_asked(request: HttpRequest, name: str) -> int:
    """A whole number of the address; 0 where there is none."""
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0


def number_posted(request: HttpRequest, name: str) -> int:
    """A whole number of a form's hidden field; 0 where there is none."""
    return whole_number(request.POST.get(name, "")) or 0


def numbers_posted(request: HttpRequest, name: str, *, most: int) -> list[int]:
    """Whole numbers with commas between them, of a form's hidden field; at most so many."""
    found = (whole_number(one) for one in request.POST.get(name, "").split(",")[:most])
    return [one for one in found if one is not None]


def whole_number(text: str) -> int | None:
    """The number that the text is, and that a database can have; None where it is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
