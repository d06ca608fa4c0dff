"""Containers on a node that this portal does not know."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from portal.hardware.models import Node


class Stranger(NamedTuple):
    """One of them: its task attempt, the UUIDs of its GPUs, its job folder on the node (empty: not known), when it was
    first reported, who asked for its end."""

    attempt: str
    gpus: list[str]
    folder: str
    seen_at: datetime
    stopped_by: str | None


def node_strangers(node: Node) -> list[Stranger]:
    """By their names; no query."""
    return [
        Stranger(
            attempt=attempt,
            gpus=told["gpus"],
            folder=told.get("folder", ""),
            seen_at=datetime.fromisoformat(told["seen_at"]),
            stopped_by=told.get("stopped_by"),
        )
        for attempt, told in sorted(node.strangers.items())
    ]
