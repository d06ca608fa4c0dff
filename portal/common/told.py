"""Clamps numbers and counts that a node reports: it may send any, and columns and charts must bear them."""

from __future__ import annotations

MOST = (1 << 31) - 1
"""The largest number that fits a column."""
GPUS = 64
"""GPUs accepted per node or task; more than any server has."""
LONGEST_LOG = 1 << 50
"""Bytes; a longer log is not believed. The fastest ever measured would take seven years to write it."""


def number_believed(told: int) -> int:
    """The nearest number that fits a column."""
    return min(max(told, -MOST), MOST)


def amount_believed(told: int) -> int:
    """The nearest non-negative number that fits a column."""
    return min(max(told, 0), MOST)


def percent_believed(told: int | None) -> int | None:
    """The nearest percentage; None (unknown to the node) stays None."""
    return None if told is None else min(max(told, 0), 100)


def perhaps_believed(told: int | None) -> int | None:
    """The nearest number that fits a column; None (unknown to the node) stays None."""
    return None if told is None else number_believed(told)
