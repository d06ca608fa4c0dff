"""Tables of legal state transitions, as conditional UPDATEs use them."""

from __future__ import annotations

from collections.abc import Mapping


def sources(moves: Mapping[str, frozenset[str]], new: str) -> list[str]:
    """The states from which ``new`` may be reached, sorted."""
    return sorted(old for old, targets in moves.items() if new in targets)
