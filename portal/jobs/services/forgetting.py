"""Giving up a silent server, and releasing what tasks still hold on one that is removed."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext, ngettext

from portal.common.errors import Conflict
from portal.hardware.models import Node
from portal.hardware.services.silence import node_lose
from portal.hardware.silences import silent_way_out
from portal.jobs.models import Allocation, Claim, TaskAttempt
from portal.jobs.services.attempts import LIVE
from portal.jobs.services.lost import node_tasks_lose


def node_give_up(*, node: Node, reason: str, actor: str, now: datetime) -> None:
    """Gives up a silent node and its tasks, as for any lost node. If killed between the two, the next cycle gives the
    tasks up. Raises Conflict while it has not been silent long enough to be given up alone."""
    node_lose(node=node, reason=reason, actor=actor, now=now)
    node_tasks_lose(node=node, now=now)


def node_tasks_forget(*, node: Node, now: datetime) -> None:
    """Releases what lost or unkillable tasks still hold on the node. Raises Conflict while a task runs on it, or is
    about to."""
    with transaction.atomic():
        held = Node.objects.select_for_update().get(pk=node.pk)
        holding = TaskAttempt.objects.filter(node=node, released_at__isnull=True)
        if number := holding.filter(LIVE).count():
            words = ngettext(
                "%(number)s task runs on %(node)s: drain it, and remove it when they have ended.",
                "%(number)s tasks run on %(node)s: drain it, and remove it when they have ended.",
                number,
            )
            told = words % {"number": number, "node": node.name}
            raise Conflict(f"{told} {silent_way_out(held, now)}".strip())
        if Claim.objects.filter(leaf__node=node).exists():
            raise Conflict(
                gettext("GPUs of %(node)s are kept for a job that starts in a moment: drain it first.")
                % {"node": node.name}
            )
        Allocation.objects.filter(task_attempt__in=holding, released_at__isnull=True).update(released_at=now)
        holding.update(released_at=now)
