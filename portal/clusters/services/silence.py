"""Silent nodes: who is lost, and when silence is not the nodes' fault."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from portal.clusters.models import Node, ReportsLane
from portal.clusters.services.health import health_move
from portal.clusters.services.nodes import node_event
from portal.clusters.states import NodeHealth

LANE_GAP = timedelta(seconds=min(20, settings.NODE_LOST_AFTER_S / 2))
"""A pulse that comes this late means that reports were not taken in for a while: sooner than silence counts."""


def lane_pulse(*, now: datetime) -> ReportsLane:
    """A sign that reports are being taken in. After a gap the silence of nodes counts from now."""
    lane, _ = ReportsLane.objects.get_or_create(id=1, defaults={"open_since": now, "last_pulse_at": now})
    gap = now - lane.last_pulse_at > LANE_GAP or now < lane.last_pulse_at
    since = now if gap else lane.open_since
    ReportsLane.objects.filter(id=1, last_pulse_at=lane.last_pulse_at).update(open_since=since, last_pulse_at=now)
    lane.open_since, lane.last_pulse_at = since, now
    return lane


def nodes_lose(*, now: datetime) -> list[Node]:
    """Mark the nodes that were silent too long while the portal was taking reports in; those newly lost.

    When more than half of them fall silent together the fault is ours or the network's: none is lost.
    """
    lane = ReportsLane.objects.filter(id=1).first()
    if lane is None or now - lane.last_pulse_at > LANE_GAP:
        return []
    limit = timedelta(seconds=settings.NODE_LOST_AFTER_S)
    if now - lane.open_since <= limit:
        return []
    nodes = Node.objects.filter(health=NodeHealth.HEALTHY)
    silent = list(nodes.filter(Q(last_report_at__lt=now - limit) | Q(last_report_at=None)))
    if silent and len(silent) * 2 > (count := nodes.count()):
        _silent_together(silent, count, now)
        return []
    return [node for node in silent if _lose(node, now)]


def _silent_together(silent: Collection[Node], count: int, now: datetime) -> None:
    message = (
        f"{len(silent)} of {count} nodes fell silent together; none is given up. "
        "Look at the network and at the broker's address."
    )
    for node in silent:
        with transaction.atomic():
            if Node.objects.filter(pk=node.pk).exclude(health_reason=message).update(health_reason=message):
                node_event(node=node, code="silent_together", message=message, now=now)


def _lose(node: Node, now: datetime) -> bool:
    seen = f"{node.last_report_at:%H:%M:%S}" if node.last_report_at else "never"
    message = f"No report since {seen}; given up after {settings.NODE_LOST_AFTER_S} s."
    with transaction.atomic():
        lost = health_move(node, NodeHealth.LOST, reason=message, last_report_at=node.last_report_at)
        if lost:
            node_event(node=node, code="lost", message=f"Node {node.name} is lost. {message}", now=now)
    return lost
