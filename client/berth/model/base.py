"""What all answers are, and the parts of lists."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct


class Answer(Struct, frozen=True, kw_only=True):
    """Fields that this version does not know are left out; one that is missing is an error."""


RowT = TypeVar("RowT")


class Page(Struct, Generic[RowT], frozen=True, kw_only=True):
    """A part of a list; ``next`` is the address of the next part."""

    next: str | None
    results: list[RowT]
