"""A node's health, moved after its table."""

from __future__ import annotations

from portal.clusters.models import Node
from portal.clusters.states import HEALTH_MOVES, NodeHealth
from portal.common.moves import sources


def health_move(node: Node, to: NodeHealth, *, reason: str, **still: object) -> bool:
    """Move a node's health where the table allows it and the columns ``still`` are what they were."""
    rows = Node.objects.filter(pk=node.pk, health__in=sources(HEALTH_MOVES, to), **still)
    return bool(rows.update(health=to, health_reason=reason))
