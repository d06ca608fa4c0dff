"""Base of all answers, and pages of lists."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct


class Answer(Struct, frozen=True, kw_only=True):
    """Base of all answers. Unknown fields are ignored; a missing one is an error."""


RowT = TypeVar("RowT")


class Page(Struct, Generic[RowT], frozen=True, kw_only=True):
    """A page of a list; ``next`` is the address of the next one."""

    next: str | None
    results: list[RowT]
