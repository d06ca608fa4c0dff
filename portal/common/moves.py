"""Tables of legal moves between states, as conditional UPDATEs ask them."""

from __future__ import annotations

from collections.abc import Mapping


def sources(moves: Mapping[str, frozenset[str]], new: str) -> list[str]:
    """The states from which ``new`` may be reached."""
    return sorted(old for old, targets in moves.items() if new in targets)
