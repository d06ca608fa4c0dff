"""A part of a file (RFC 9110, section 14): which bytes a request asks for, so that a broken download goes on."""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.http import HttpRequest

from nodes.protocol.sessions import SessionAnswer

_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


@dataclass(frozen=True, slots=True)
class Asked:
    """The headers Range and If-Range of a request."""

    span: str = ""
    only_if: str = ""

    @classmethod
    def of(cls, request: HttpRequest) -> Asked:
        return cls(request.headers.get("Range", "").strip(), request.headers.get("If-Range", "").strip())


@dataclass(frozen=True, slots=True)
class Part:
    """``length`` bytes from ``first`` on."""

    first: int
    length: int


class Outside(Exception):
    """No byte of the file is in what is asked for."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


def mark_of(there: SessionAnswer) -> str:
    """The file's version, as an ETag: another as soon as it is written to."""
    return f'"{there.changed_ms:x}-{there.size:x}"'


def part_of(asked: Asked, there: SessionAnswer) -> Part | None:
    """None: all of it, also of what is no file, where the file is another than ``If-Range`` says, and where several
    parts are asked for or what is none. Raises Outside."""
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
