"""Numbers that a node tells of itself or of its tasks: it may name any, and columns and charts must bear them. So are
the bounds of how many there may be."""

from __future__ import annotations

MOST = (1 << 31) - 1
"""The greatest number that fits a column."""
GPUS = 64
"""So many GPUs of one node, or of one task, are taken: more than a server has."""
LONGEST_LOG = 1 << 50
"""Bytes: a log that says it is longer is none. The fastest that was ever measured would write for seven years at it."""


def number_believed(told: int) -> int:
    """The nearest that fits a column."""
    return min(max(told, -MOST), MOST)


def amount_believed(told: int) -> int:
    """The nearest that fits and is none below zero."""
    return min(max(told, 0), MOST)


def perhaps_believed(told: int | None) -> int | None:
    """The nearest that fits; None stays None: the node does not know."""
    return None if told is None else number_believed(told)
