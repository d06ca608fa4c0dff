"""Unknown containers on a node."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from portal.hardware.models import Node


class Stranger(NamedTuple):
    """An unknown container: task attempt, UUIDs of its GPUs, job folder on the node (empty: unknown), when it was first
    reported, who ordered its end."""

    attempt: str
    gpus: list[str]
    folder: str
    seen_at: datetime
    stopped_by: str | None


def node_strangers(node: Node) -> list[Stranger]:
    """Sorted by attempt; no query."""
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
