"""Range requests (RFC 9110, section 14), so that a broken download can resume."""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.http import HttpRequest

from nodes.protocol.sessions import SessionAnswer

_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request's Range and If-Range headers."""

    span: str = ""
    only_if: str = ""

    @classmethod
    def of(cls, request: HttpRequest) -> Asked:
        return cls(request.headers.get("Range", "").strip(), request.headers.get("If-Range", "").strip())


@dataclass(frozen=True, slots=True)
class Part:
    """A byte range: ``length`` bytes from ``first`` on."""

    first: int
    length: int


class Outside(Exception):
    """The range contains no byte of the file."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


def mark_of(there: SessionAnswer) -> str:
    """The file's ETag: changes with every write."""
    return f'"{there.changed_ms:x}-{there.size:x}"'


def part_of(asked: Asked, there: SessionAnswer) -> Part | None:
    """The part to send; None for all: if it is no file, has changed since ``If-Range``, or the range is malformed or
    has several parts. Raises Outside."""
    found = _RANGE.fullmatch(asked.span)
    if there.kind != "file" or found is None or asked.only_if not in ("", mark_of(there)):
        return None
    first, last = found.groups()
    if not first:
        return _end_of(int(last), there.size) if last else None
    if last and int(last) < int(first):
        return None
    if int(first) >= there.size:
        raise Outside(there.size)
    return Part(int(first), min(int(last or there.size), there.size - 1) - int(first) + 1)


def _end_of(length: int, size: int) -> Part:
    if not length or not size:
        raise Outside(size)
    return Part(max(size - length, 0), min(length, size))
