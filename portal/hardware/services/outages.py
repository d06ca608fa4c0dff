"""Takes out a node where tasks of several users fail to start, until somebody puts it back or a trial succeeds.

Each failure is an event of the node, so that what is counted is what its page shows. Out, it is tried again after a
while, longer each time; on trial, the first failure takes it out again.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from portal.common.prepared import Prepared
from portal.hardware import wordings
from portal.hardware.models import Node, NodeEvent
from portal.hardware.outages import OUT_CAUSES
from portal.hardware.services.nodes import node_event

START_FAILED = "start_failed"
LONGEST = timedelta(hours=8)


def node_start_failed(*, node: Node, user: str, cause: str, now: datetime) -> bool:
    """Record a start failure of this user's task that is the node's fault; True if that takes the node out."""
    if cause not in OUT_CAUSES:
        return False
    with transaction.atomic():
        words = wordings.FAILED_BY[cause]()
        message = wordings.START_FAILED(user=user, node=node.name, why=words)
        node_event(node=node, code=START_FAILED, message=message, now=now, cause=cause)
        row = Node.objects.select_for_update(no_key=True).get(pk=node.pk)
        return _put_out(row, cause, words, now)


def _put_out(row: Node, cause: str, words: str, now: datetime) -> bool:
    if row.out_since is not None or not settings.NODE_OUT_USERS:
        return False
    users = 1 if row.trials else _users(row, now)
    if not row.trials and users < settings.NODE_OUT_USERS:
        return False
    wait = min(timedelta(seconds=settings.NODE_TRIAL_AFTER_S) * 2 ** min(row.trials, 10), LONGEST)
    Node.objects.filter(pk=row.pk).update(
        out_since=now, out_cause=cause, trial_at=now + wait, trials=min(row.trials + 1, 1000)
    )
    message = wordings.OUT(node=row.name, number=users, why=words)
    if row.trials:
        message = wordings.OUT_ON_TRIAL(node=row.name, why=words)
    node_event(node=row, code="out", message=message, now=now, cause=cause)
    return True


def _users(node: Node, now: datetime) -> int:
    """How many users' tasks failed within the window, since its last return or passed trial."""
    since = now - timedelta(seconds=settings.NODE_OUT_WINDOW_S)
    events = NodeEvent.objects.filter(node=node, at__gt=since, code__in=[START_FAILED, *_AFRESH]).order_by("id")
    users: set[str] = set()
    for code, data in events.values_list("code", "data"):
        if code == START_FAILED:
            users.add(data["user"])
        else:
            users.clear()
    return len(users)


_AFRESH = ("put_back", "trial_passed")


def nodes_try(*, now: datetime) -> list[Node]:
    """Let nodes whose time out is over take tasks again; returns those now on trial. One query if none was out."""
    nodes = _TRIED()
    for node in nodes:
        if node.out_since is None or node.trial_at is None or node.trial_at > now:
            continue
        with transaction.atomic():
            still = Node.objects.filter(pk=node.pk, out_since=node.out_since)
            if still.update(out_since=None, trial_at=now):
                node.out_since, node.trial_at = None, now
                node_event(node=node, code="trial", message=wordings.TRIAL(node=node.name), now=now)
    return [node for node in nodes if node.out_since is None]


_TRIED = Prepared(lambda: Node.objects.filter(trials__gt=0).order_by("pk"))


def node_trial_passed(*, node: Node, now: datetime) -> None:
    """End a trial: a task of it started on the node."""
    with transaction.atomic():
        on_trial = Node.objects.filter(pk=node.pk, out_since__isnull=True, trials__gt=0)
        if on_trial.update(out_cause="", trial_at=None, trials=0):
            node_event(node=node, code="trial_passed", message=wordings.TRIAL_PASSED(node=node.name), now=now)
