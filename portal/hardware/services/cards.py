"""Cards that are put into another server."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from portal.hardware.models import Gpu, Node, NodeEvent
from portal.hardware.services.nodes import node_event
from portal.hardware.states import NodeHealth

STILL_THERE = timedelta(seconds=15)
"""A server that reported a card so lately still has it."""
SAID_AGAIN = timedelta(hours=1)


def cards_take(*, node: Node, uuids: Collection[str], now: datetime) -> frozenset[str]:
    """Cards that this server reports and had not so far: those that another one had are not there any more, and keep
    their rows there for the tasks that ran on them. Gives the cards that another server still reports, which stay its.
    Inside the caller's transaction."""
    left = set()
    for gpu in Gpu.objects.filter(uuid__in=uuids, present=True).exclude(node=node).select_related("node"):
        other = gpu.node
        if other.removed_at is None and _lately(other, now):
            left.add(gpu.uuid)
            _say_twice(node, gpu, now)
            continue
        Gpu.objects.filter(pk=gpu.pk).update(present=False)
        message = f"GPU {gpu.index} ({gpu.uuid}) of {other.name} is in {node.name} now."
        for one in (other, node):
            node_event(node=one, code="gpu_moved", message=message, now=now)
    return frozenset(left)


def _lately(node: Node, now: datetime) -> bool:
    heard = node.last_report_at
    return node.health == NodeHealth.HEALTHY and heard is not None and now - heard < STILL_THERE


def _say_twice(node: Node, gpu: Gpu, now: datetime) -> None:
    """Once in a while: a card that moves is reported twice for a few seconds, a server that was copied for ever."""
    message = f"{node.name} reports the GPU {gpu.uuid}, which {gpu.node.name} reports as well: it stays with that one."
    said = NodeEvent.objects.filter(node=node, code="gpu_twice", message=message, at__gt=now - SAID_AGAIN)
    if not said.exists():
        node_event(node=node, code="gpu_twice", message=message, now=now)
