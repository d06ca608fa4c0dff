"""Silent nodes: which are lost, and when silence is not their fault."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext

from portal.accounts.audit import audit_write
from portal.accounts.models import Audited
from portal.common.errors import Conflict
from portal.common.wake import scheduler_wake
from portal.hardware import wordings
from portal.hardware.models import Node, NodeEvent, ReportsLane
from portal.hardware.services.health import health_move
from portal.hardware.services.nodes import node_event
from portal.hardware.silences import AHEAD, LANE_GAP, node_silent_long, silence_counts, silence_limit
from portal.hardware.states import NodeHealth

GIVEN_UP = "given_up"
"""Event code of a node that somebody gave up."""


def lane_pulse(*, now: datetime) -> ReportsLane:
    """Record that reports are being taken in. After a gap, nodes' silence counts from now."""
    lane, _ = ReportsLane.objects.get_or_create(id=1, defaults={"open_since": now, "last_pulse_at": now})
    gap = now - lane.last_pulse_at > LANE_GAP or now < lane.last_pulse_at
    since = now if gap else lane.open_since
    ReportsLane.objects.filter(id=1, last_pulse_at=lane.last_pulse_at).update(open_since=since, last_pulse_at=now)
    lane.open_since, lane.last_pulse_at = since, now
    return lane


def nodes_lose(*, now: datetime) -> list[Node]:
    """Mark as lost the nodes silent too long while the portal took reports in; returns those newly lost.

    If more than half of them fall silent together the fault is ours or the network's: none is lost.
    """
    if not silence_counts(now):
        return []
    nodes = Node.objects.filter(health=NodeHealth.HEALTHY)
    late = Q(last_report_at__lt=now - silence_limit()) | Q(last_report_at__gt=now + AHEAD)
    silent = list(nodes.filter(late | Q(last_report_at=None)))
    if not silent:
        return []
    # Giving one of them up by hand must not tip the majority for the others.
    beside = _given_up_meanwhile(silent)
    number, count = len(silent) + beside, nodes.count() + beside
    if number * 2 > count:
        _silent_together(silent, number, count, now)
        return []
    return [node for node in silent if _lose(node, now)]


def _given_up_meanwhile(silent: Collection[Node]) -> int:
    """Number of nodes given up by hand since the first of these fell silent, and still lost."""
    since = min((node.last_report_at for node in silent if node.last_report_at), default=None)
    if since is None:
        return 0
    events = NodeEvent.objects.filter(code=GIVEN_UP, at__gte=since)
    return Node.objects.filter(health=NodeHealth.LOST, pk__in=events.values("node")).count()


def _silent_together(silent: Collection[Node], number: int, count: int, now: datetime) -> None:
    message = wordings.TOGETHER(number=number, all=count)
    for node in silent:
        with transaction.atomic():
            if Node.objects.filter(pk=node.pk).exclude(health_reason=message).update(health_reason=message):
                node_event(node=node, code="silent_together", message=message, now=now)


def node_lose(*, node: Node, reason: str, actor: str, now: datetime) -> None:
    """Give up by hand a node that has been silent long enough to be given up alone: silent together with most others it
    would be waited for as long as they are. Its tasks are left to the caller. Raises Conflict if it is not silent that
    long."""
    message = wordings.NO_REPORT_BY(time=_seen(node), user=actor, why=reason)
    with transaction.atomic():
        silent = node_silent_long(node, now)
        if not (silent and health_move(node, NodeHealth.LOST, reason=message, last_report_at=node.last_report_at)):
            raise Conflict(_why_not(node))
        words = wordings.LOST(node=node.name, why=message)
        node_event(node=node, code=GIVEN_UP, message=words, now=now, actor=actor)
        before = {"health": NodeHealth.HEALTHY}
        audit_write(
            Audited.NODE_GIVE_UP, actor=actor, target=node.name, now=now, before=before,
            after={"health": NodeHealth.LOST, "reason": reason},
        )  # fmt: skip
        transaction.on_commit(scheduler_wake)


def _why_not(node: Node) -> str:
    if node.health == NodeHealth.LOST:
        return gettext("%(node)s is lost already.") % {"node": node.name}
    told = {"node": node.name, "seconds": settings.NODE_LOST_AFTER_S}
    return (
        gettext("%(node)s is not given up: it has not been silent for %(seconds)s s while the portal took reports in.")
        % told
    )


def _seen(node: Node) -> str:
    return f"{node.last_report_at:%H:%M:%S}" if node.last_report_at else wordings.NEVER()


def _lose(node: Node, now: datetime) -> bool:
    message = wordings.NO_REPORT(time=_seen(node), seconds=settings.NODE_LOST_AFTER_S)
    with transaction.atomic():
        lost = health_move(node, NodeHealth.LOST, reason=message, last_report_at=node.last_report_at)
        if lost:
            node_event(node=node, code="lost", message=wordings.LOST(node=node.name, why=message), now=now)
    return lost
