"""Evicts tasks from GPUs that their node reports as faulty, without using up a retry, and judges nodes on trial, which
a task's successful start acquits."""

from __future__ import annotations

from datetime import datetime
from itertools import groupby

from django.db import transaction
from django.db.models import Q

from nodes.protocol.states import Phase, StopReason
from portal.common.prepared import Prepared
from portal.hardware.models import Gpu
from portal.hardware.outages import FOUND_BY_NODE, OUT_CAUSES
from portal.hardware.services.outages import node_trial_passed, nodes_try
from portal.jobs import wordings
from portal.jobs.container import grace_seconds
from portal.jobs.models import Allocation, TaskAttempt
from portal.jobs.services.attempts import LIVE, attempt_end, tasks_stop
from portal.jobs.services.retry_backoff import NODE_START_WINDOW
from portal.jobs.services.transitions import job_event, job_hold
from portal.jobs.states import EndReason


def faulty_evict(*, now: datetime) -> int:
    """Tells tasks on faulty GPUs to end, a gang as a whole. Returns how many were told."""
    # GPUs first, usually none is faulty: there are many more tasks.
    words = {
        key: wordings.GPU_BAD(index=index, node=node, why=fault.removeprefix(FOUND_BY_NODE))
        for key, index, node, fault in _BAD()
        if fault.startswith(FOUND_BY_NODE)
    }
    if not words:
        return 0
    held = Allocation.objects.filter(leaf__in=words, released_at__isnull=True).order_by("leaf")
    why = {attempt: words[leaf] for attempt, leaf in held.values_list("task_attempt", "leaf")}
    rows = TaskAttempt.objects.filter(LIVE, pk__in=why, phase__in=[Phase.PREPARE, Phase.RUN])
    rows = rows.select_related("job_attempt__job__user", "task__role").order_by("job_attempt_id", "id")
    told = 0
    for _, same in groupby(rows, key=lambda row: row.job_attempt_id):
        told += _move([(row, why[row.pk]) for row in same], now)
    return told


_BAD = Prepared(lambda: Gpu.objects.exclude(fault="").order_by().values_list("pk", "index", "node__name", "fault"))


def _move(rows: list[tuple[TaskAttempt, str]], now: datetime) -> int:
    attempt = rows[0][0].job_attempt
    grace_s = grace_seconds(attempt.job.spec["berth"].get("grace_period_s"))
    with transaction.atomic():
        job_hold(attempt.job_id)
        if not all(row.alone for row, _ in rows):
            ended = attempt_end(
                attempt=attempt, reason=EndReason.NODE_FAULT, message=rows[0][1], now=now, stop=StopReason.DRAINED,
                grace_s=grace_s,
            )  # fmt: skip
            return len(rows) if ended else 0
        for row, message in rows:
            tasks_stop([row], reason=StopReason.DRAINED, message=message, grace_s=grace_s, now=now)
            job_event(
                job=attempt.job, job_attempt=attempt, task_attempt=row, code="task_drained", now=now,
                message=wordings.OF_TASK(task=f"{row.task.role.name}/{row.task.index}", why=message),
            )  # fmt: skip
    return len(rows)


def trials_judge(*, now: datetime) -> None:
    """Begins trials that are due, and ends those in which a task started well."""
    for node in nodes_try(now=now):
        begun = TaskAttempt.objects.filter(node=node, created_at__gte=node.trial_at, started_at__isnull=False)
        well = Q(cause="") & Q(started_at__lt=now - NODE_START_WINDOW) | ~Q(cause="") & ~Q(cause__in=OUT_CAUSES)
        if begun.filter(well).exists():
            node_trial_passed(node=node, now=now)
