"""GPUs that are moved to another node."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from portal.hardware import wordings
from portal.hardware.models import Gpu, Node, NodeEvent
from portal.hardware.services.nodes import node_event
from portal.hardware.states import NodeHealth

STILL_THERE = timedelta(seconds=15)
"""A node that reported a GPU this recently still has it."""
SAID_AGAIN = timedelta(hours=1)


def cards_take(*, node: Node, uuids: Collection[str], now: datetime) -> frozenset[str]:
    """Take over GPUs that this node newly reports: where another node had one, that row is marked absent and stays for
    the tasks that ran on it. Returns those that another node still reports, which keeps them. Inside the caller's
    transaction."""
    left = set()
    for gpu in Gpu.objects.filter(uuid__in=uuids, present=True).exclude(node=node).select_related("node"):
        other = gpu.node
        if other.removed_at is None and _lately(other, now):
            left.add(gpu.uuid)
            _say_twice(node, gpu, now)
            continue
        Gpu.objects.filter(pk=gpu.pk).update(present=False)
        message = wordings.GPU_MOVED(index=gpu.index, uuid=gpu.uuid, node=other.name, other=node.name)
        for one in (other, node):
            node_event(node=one, code="gpu_moved", message=message, now=now)
    return frozenset(left)


def _lately(node: Node, now: datetime) -> bool:
    heard = node.last_report_at
    return node.health == NodeHealth.HEALTHY and heard is not None and now - heard < STILL_THERE


def _say_twice(node: Node, gpu: Gpu, now: datetime) -> None:
    """Event at most hourly: a moving GPU is reported twice for a few seconds, one of a cloned node for ever."""
    message = wordings.GPU_TWICE(node=node.name, uuid=gpu.uuid, other=gpu.node.name)
    said = NodeEvent.objects.filter(node=node, code="gpu_twice", data=message.stored(), at__gt=now - SAID_AGAIN)
    if not said.exists():
        node_event(node=node, code="gpu_twice", message=message, now=now)
