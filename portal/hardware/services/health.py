"""Moves a node's health along its table."""

from __future__ import annotations

from portal.common.moves import sources
from portal.hardware.models import Node
from portal.hardware.states import HEALTH_MOVES, NodeHealth


def health_move(node: Node, to: NodeHealth, *, reason: str, **still: object) -> bool:
    """Move a node's health if the table allows it and the columns ``still`` are unchanged."""
    rows = Node.objects.filter(pk=node.pk, health__in=sources(HEALTH_MOVES, to), **still)
    return bool(rows.update(health=to, health_reason=reason))
