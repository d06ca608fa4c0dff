"""Gives up tasks that nobody reported as ended: those on lost nodes, and those that do not end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet

from nodes.protocol.states import Phase, StopReason
from portal.common.prepared import Prepared
from portal.hardware.models import Node
from portal.hardware.states import NodeHealth
from portal.jobs import wordings
from portal.jobs.models import TaskAttempt
from portal.jobs.selectors.overdue import END_WITHIN, stops_overdue
from portal.jobs.services.allocation import task_attempt_uncharge
from portal.jobs.services.attempts import LIVE, tasks_stop
from portal.jobs.services.avoided_nodes import ENDLESS, node_avoid
from portal.jobs.services.outcome import task_attempt_ended
from portal.jobs.services.transitions import job_event, job_hold


def lost_tasks_give_up(*, now: datetime) -> None:
    """Gives up the live tasks on lost nodes."""
    # Nodes first, usually none is lost: there are many more tasks.
    if lost := _LOST():
        rows = TaskAttempt.objects.filter(LIVE, node__in=lost)
        for node in Node.objects.filter(pk__in=rows.values("node")).order_by("id"):
            node_tasks_lose(node=node, now=now)


_LOST = Prepared(lambda: Node.objects.filter(health=NodeHealth.LOST).order_by().values_list("pk", flat=True))


def node_tasks_lose(*, node: Node, now: datetime) -> None:
    """Gives up the node's live tasks: their attempts end with ``node lost``; later reports are only stored. Nobody
    avoids the node: while lost it takes nothing, and once back it is not suspect."""
    _give_up(
        TaskAttempt.objects.filter(node=node), code="task_lost", now=now, why=wordings.NODE_LOST(node=node.name),
        words=lambda row: wordings.TASK_LOST(task=_name(row), node=node.name),
    )  # fmt: skip


def endless_tasks_give_up(*, now: datetime) -> None:
    """Gives up tasks that were told to end and do not, while their nodes report. For tasks told by a process of an
    earlier release, the time counts from here."""
    if untimed := _UNTIMED():
        TaskAttempt.objects.filter(pk__in=untimed, stop_since=None).update(stop_since=now)
    if overdue := stops_overdue(now=now):
        _give_up(
            TaskAttempt.objects.filter(pk__in=overdue), code="task_given_up", now=now, words=_endless, avoid=ENDLESS
        )


_UNTIMED = Prepared(
    lambda: TaskAttempt.objects.filter(LIVE, phase=Phase.STOP, stop_since=None).order_by().values_list("pk", flat=True)
)


def _endless(row: TaskAttempt) -> str:
    return wordings.GIVEN_UP(task=_name(row), node=row.node.name, minutes=END_WITHIN.seconds // 60)


def _name(row: TaskAttempt) -> str:
    return f"{row.task.role.name}/{row.task.index}"


def _give_up(
    rows: QuerySet[TaskAttempt],
    *,
    code: str,
    words: Callable[[TaskAttempt], str],
    now: datetime,
    why: str = "",
    avoid: str = "",
) -> None:
    """Gives up the live ones. ``words``: what became of each; ``why``: the reason for the retry, if that is another
    sentence; ``avoid``: the fault for which its job avoids the node. Also tells them to end, if not told yet."""
    for row in rows.filter(LIVE).select_related("task__role", "node", "job_attempt__job__user"):
        with transaction.atomic():
            job_hold(row.job_attempt.job_id)
            if not TaskAttempt.objects.filter(LIVE, pk=row.pk).update(lost_at=now):
                continue
            row.lost_at = now
            message = wordings.NODE_GIVEN_UP(node=row.node.name)
            tasks_stop([row], reason=StopReason.LOST, message=message, grace_s=0, now=now)
            task_attempt_uncharge(row=row, now=now)
            job_event(
                job=row.job_attempt.job, job_attempt=row.job_attempt, task_attempt=row, code=code, now=now,
                message=words(row),
            )  # fmt: skip
            if avoid:
                node_avoid(job=row.job_attempt.job, node=row.node.name, cause=avoid, now=now)
            task_attempt_ended(row=row, now=now, given_up=why or words(row))
