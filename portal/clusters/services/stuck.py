"""A node that reports and can carry out nothing: it gets nothing new until it can, and what runs there goes on."""

from __future__ import annotations

from datetime import datetime

from nodes.protocol import Inventory
from portal.clusters.models import Node
from portal.clusters.services.nodes import node_event
from portal.clusters.states import Stuck


def stuck_columns(node: Node, found: Inventory, now: datetime) -> dict[str, object]:
    """What the node's row shall say of it after a report. That it begins and that it ends are told once each."""
    cause = Stuck.ENGINE if found.engine_away else ""
    if cause != node.stuck_cause:
        _tell(node, cause, now)
    since = node.stuck_since if cause == node.stuck_cause else now if cause else None
    return {"stuck_cause": cause, "stuck_since": since, "stuck_words": found.engine_away}


def _tell(node: Node, cause: str, now: datetime) -> None:
    if cause == Stuck.ENGINE:
        message = f"The container engine of {node.name} does not answer: the node takes nothing new."
        node_event(node=node, code="engine_away", message=message, now=now)
    elif node.stuck_cause == Stuck.ENGINE:
        message = f"The container engine of {node.name} answers again."
        node_event(node=node, code="engine_back", message=message, now=now)
