"""How a check says that it found something, or that there is nothing to check."""

from __future__ import annotations

from typing import NoReturn


class Failed(Exception):
    """A check found something that is not as it should be."""


class NotHere(Exception):
    """What a check is about does not exist on this machine."""


def fail(text: str) -> NoReturn:
    raise Failed(text)
