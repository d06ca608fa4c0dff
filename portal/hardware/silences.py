"""How long a node has been silent, which counts only while the portal takes reports in."""

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
"""A pulse that comes this late means that reports were not taken in for a while: sooner than silence counts."""

AHEAD = timedelta(minutes=1)
"""So far another worker's clock may be ahead. What is dated further in the future, a report or a pulse, was dated by a
clock that was wrong: of a node, or a portal, that says nothing more it says nothing."""


def silence_limit() -> timedelta:
    """For so long a node says nothing before it is given up."""
    return timedelta(seconds=settings.NODE_LOST_AFTER_S)


def reports_taken_for(now: datetime) -> timedelta:
    """For how long the portal has taken reports in without a gap; nothing while it does not. A clock that was set back
    is a gap, too: until every node has reported by the new one, those that have not yet are nobody's fault."""
    lane = _LANE.first()
    if lane is None or not -AHEAD <= now - lane.last_pulse_at <= LANE_GAP:
        return timedelta()
    return now - lane.open_since


_LANE = Prepared(lambda: ReportsLane.objects.filter(id=1))


LATE_WITHIN = timedelta(seconds=20)
"""Whom the portal answers nothing reports each 15 s."""


def portal_late_ms(*, now: datetime, beside: Node | None = None) -> int:
    """By how much the portal itself is behind with reports: by so much at least all of them came late that it took in
    lately, of two nodes or more, ``beside`` among them. Nodes whose clocks are known to be ahead tell nothing of it."""
    heard = Node.objects.filter(late_at__range=(now - LATE_WITHIN, now + AHEAD), clock_skew_ms__lte=LIMIT_MS)
    if beside is not None:
        heard = heard.exclude(pk=beside.pk)
    told = heard.aggregate(number=Count("pk"), least=Min("late_ms"))
    enough = told["number"] >= (1 if beside else 2)
    return max(0, told["least"]) if enough else 0


def heard_without_gap(node: Node, now: datetime) -> bool:
    """Whether a report that comes now follows the one before soon enough for nothing to have been lost between."""
    last = node.last_report_at
    return last is not None and now - last < silence_limit() / 2


def heard_since(node: Node, now: datetime) -> datetime:
    """Since when a node of which a report comes now has reported without a gap."""
    since = node.heard_since
    return since if since is not None and since <= now and heard_without_gap(node, now) else now


def silence_counts(now: datetime) -> bool:
    """Whether the portal has taken reports in for so long that who is silent is so by itself."""
    return reports_taken_for(now) > silence_limit()


def node_silent_long(node: Node, now: datetime) -> bool:
    """Whether the portal counts on a node that has said nothing for so long that it would be given up alone."""
    last = node.last_report_at
    late = node.health == NodeHealth.HEALTHY and (last is None or not now - silence_limit() <= last <= now + AHEAD)
    return late and silence_counts(now)


def silent_way_out(node: Node, now: datetime) -> str:
    """What an administrator can do where something is refused for a node that says nothing; empty where it does."""
    if not node_silent_long(node, now):
        return ""
    return gettext("It is silent: where it does not come back, give it up on its page first.")
