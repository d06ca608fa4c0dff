"""A node's silence, which counts only while the portal takes reports in."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Count, Min
from django.utils.translation import gettext

from portal.common.prepared import Prepared
from portal.hardware.clocks import LIMIT_MS
from portal.hardware.models import Node, ReportsLane
from portal.hardware.states import NodeHealth

LANE_GAP = timedelta(seconds=min(20, settings.NODE_LOST_AFTER_S / 2))
"""A pulse this late means that reports were not taken in for a while; shorter than the silence limit."""

AHEAD = timedelta(minutes=1)
"""How far another worker's clock may be ahead. A report or pulse dated further in the future was dated by a wrong
clock, and says nothing about a node or portal that has been silent since."""


def silence_limit() -> timedelta:
    """Silence after which a node is given up."""
    return timedelta(seconds=settings.NODE_LOST_AFTER_S)


def reports_taken_for(now: datetime) -> timedelta:
    """How long the portal has taken reports in without a gap; zero while it does not. A clock set back is a gap, too:
    until every node has reported by the new one, missing reports are nobody's fault."""
    lane = _LANE.first()
    if lane is None or not -AHEAD <= now - lane.last_pulse_at <= LANE_GAP:
        return timedelta()
    return now - lane.open_since


_LANE = Prepared(lambda: ReportsLane.objects.filter(id=1))


LATE_WITHIN = timedelta(seconds=20)
"""Agents without an answer report each 15 s."""


def portal_late_ms(*, now: datetime, beside: Node | None = None) -> int:
    """The portal's own delay with reports: the least delay of all that it took in recently, from two nodes or more,
    ``beside`` among them. Nodes whose clocks are known to be ahead are left out."""
    heard = Node.objects.filter(late_at__range=(now - LATE_WITHIN, now + AHEAD), clock_skew_ms__lte=LIMIT_MS)
    if beside is not None:
        heard = heard.exclude(pk=beside.pk)
    told = heard.aggregate(number=Count("pk"), least=Min("late_ms"))
    enough = told["number"] >= (1 if beside else 2)
    return max(0, told["least"]) if enough else 0


def heard_without_gap(node: Node, now: datetime) -> bool:
    """Whether a report arriving now follows the previous one soon enough that nothing was lost between."""
    last = node.last_report_at
    return last is not None and now - last < silence_limit() / 2


def heard_since(node: Node, now: datetime) -> datetime:
    """Since when a node whose report arrives now has reported without a gap."""
    since = node.heard_since
    return since if since is not None and since <= now and heard_without_gap(node, now) else now


def silence_counts(now: datetime) -> bool:
    """Whether the portal has taken reports in long enough for silence to be the node's own."""
    return reports_taken_for(now) > silence_limit()


def node_silent_long(node: Node, now: datetime) -> bool:
    """Whether a healthy node has been silent long enough to be given up alone."""
    last = node.last_report_at
    late = node.health == NodeHealth.HEALTHY and (last is None or not now - silence_limit() <= last <= now + AHEAD)
    return late and silence_counts(now)


def silent_way_out(node: Node, now: datetime) -> str:
    """Advice to an administrator if something is refused for a silent node; empty if it is not silent."""
    if not node_silent_long(node, now):
        return ""
    return gettext("It is silent: where it does not come back, give it up on its page first.")
