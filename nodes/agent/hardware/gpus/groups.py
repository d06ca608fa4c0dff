"""Groups of neighbouring GPUs, from what is known of each pair."""

from __future__ import annotations

from collections.abc import Callable


def groups_of(count: int, joined: Callable[[int, int], bool]) -> list[int]:
    """The group of each of ``count`` items: equal where a chain of joined pairs leads from one to the other. A group's
    number is the lowest index in it."""
    group = list(range(count))
    for a in range(count):
        for b in range(a + 1, count):
            if group[a] != group[b] and joined(a, b):
                low, high = sorted((group[a], group[b]))
                group = [low if one == high else one for one in group]
    return group
