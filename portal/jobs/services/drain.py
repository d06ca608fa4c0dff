"""Drains nodes: tasks on them end with their grace and wait again; no retry is used up."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby

from django.db import transaction

from nodes.protocol.states import Phase, StopReason
from portal.common.prepared import Prepared
from portal.hardware.models import Node
from portal.hardware.states import NodeIntent
from portal.jobs import wordings
from portal.jobs.container import grace_seconds
from portal.jobs.models import TaskAttempt
from portal.jobs.services.attempts import LIVE, attempt_end, tasks_stop
from portal.jobs.services.transitions import job_event, job_hold
from portal.jobs.states import EndReason


def nodes_drain(*, now: datetime) -> int:
    """Moves what still runs on draining nodes away: gangs as a whole, of other jobs the tasks there. Returns how many
    tasks were told to end."""
    # Nodes first, usually none is draining: there are many more tasks.
    draining = _DRAINING()
    if not draining:
        return 0
    rows = (
        TaskAttempt.objects.filter(LIVE, node__in=draining, phase__in=[Phase.PREPARE, Phase.RUN])
        .select_related("job_attempt__job__user", "node", "task__role")
        .order_by("job_attempt_id", "node_id", "id")
    )
    groups = [list(same) for _, same in groupby(rows, key=lambda row: (row.job_attempt_id, row.node_id))]
    return sum(_move(same[0].node, same, now) for same in groups)


_DRAINING = Prepared(lambda: Node.objects.filter(intent=NodeIntent.DRAINING).order_by().values_list("pk", flat=True))


def _move(node: Node, rows: Sequence[TaskAttempt], now: datetime) -> int:
    attempt = rows[0].job_attempt
    grace_s = grace_seconds(attempt.job.spec["berth"].get("grace_period_s"))
    why = {"node": node.name, "why": node.intent_reason}
    message = wordings.NODE_DRAINED_FOR(**why) if node.intent_reason else wordings.NODE_DRAINED(node=node.name)
    with transaction.atomic():
        job_hold(attempt.job_id)
        if not all(row.alone for row in rows):
            ended = attempt_end(
                attempt=attempt, reason=EndReason.DRAINED, message=message, now=now, stop=StopReason.DRAINED,
                grace_s=grace_s,
            )  # fmt: skip
            return len(rows) if ended else 0
        tasks_stop(rows, reason=StopReason.DRAINED, message=message, grace_s=grace_s, now=now)
        for row in rows:
            job_event(
                job=attempt.job, job_attempt=attempt, task_attempt=row, code="task_drained", now=now,
                message=wordings.OF_TASK(task=f"{row.task.role.name}/{row.task.index}", why=message),
            )  # fmt: skip
    return len(rows)
