"""Versions of agents and portal: releases one apart understand each other."""

from __future__ import annotations

import re

_NUMBER = re.compile("[0-9]{1,9}")


def release(version: str) -> tuple[int, int]:
    """The release of a version: (0, 3) of ``0.3.1``; what is no number of at most nine digits counts as 0."""
    numbers = [int(word) if _NUMBER.fullmatch(word) else 0 for word in f"{version}.0".split(".")[:2]]
    return numbers[0], numbers[1]


def releases_fit(one: str, other: str) -> bool:
    """Whether two versions are of the same release or of neighbours."""
    ours, theirs = release(one), release(other)
    return ours[0] == theirs[0] and abs(ours[1] - theirs[1]) <= 1
