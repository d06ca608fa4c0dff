"""Placed tasks that do not start: those that take too long are tried elsewhere, and those whose container cannot be
described end."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Max, Q

from nodes.protocol.states import ContainerState, Phase, StopReason
from portal.hardware.outages import LATE
from portal.hardware.services.outages import node_start_failed
from portal.hardware.silences import reports_taken_for
from portal.jobs import wordings
from portal.jobs.models import JobAttempt, TaskAttempt
from portal.jobs.services.attempts import LIVE, attempt_end, attempt_run_when_prepared, tasks_stop
from portal.jobs.services.avoided_nodes import node_avoid
from portal.jobs.services.transitions import job_event, job_hold
from portal.jobs.states import Behaviour, EndReason
from portal.node_orders.services.desired import specs_complete

NOT_PREPARED = [ContainerState.ACCEPTED, ContainerState.PULLING]


def starting_judge(*, attempts: Sequence[JobAttempt], now: datetime) -> None:
    """For attempts with tasks not started: starts the prepared, ends those that cannot be."""
    if not attempts:
        return
    unmade = specs_complete(attempts=attempts)
    for attempt in attempts:
        if attempt.pk in unmade:
            attempt_end(
                attempt=attempt, reason=EndReason.START_FAILED, message=unmade[attempt.pk], now=now,
                behaviour=Behaviour.PERMANENT, stop=StopReason.START_FAILED,
            )  # fmt: skip
        elif not attempt_run_when_prepared(attempt=attempt, now=now):
            _late(attempt, now)


def _late(attempt: JobAttempt, now: datetime) -> None:
    before = now - timedelta(seconds=settings.GANG_PREPARE_TIMEOUT_S)
    # Prepared without a valid digest is not prepared: its siblings could never be told to run the same image.
    unprepared = Q(state__in=NOT_PREPARED) | Q(state=ContainerState.PREPARED, digest="")
    unstarted = Q(phase=Phase.RUN, state__in=[ContainerState.PREPARED, ContainerState.STARTING], started_at=None)
    unstarted &= Q(prepared_at__lt=before) | Q(prepared_at=None)
    rows = TaskAttempt.objects.filter(
        LIVE, unprepared | unstarted, job_attempt=attempt, phase__in=[Phase.PREPARE, Phase.RUN], created_at__lt=before
    ).exclude(lease_over_at__gte=before)
    rows = rows.select_related("node", "task__role", "job_attempt__job").defer("spec_sealed").order_by("node_id", "id")
    # Not in the query: excluding by a JSON key drops the rows that lack it.
    late = [row for row in rows if row.progress.get("code") != "lease"]
    if any(map(_prepared, late)) and not _start_awaited_since(attempt, before, now):
        late = [row for row in late if not _prepared(row)]
    if late:
        with transaction.atomic():
            job_hold(attempt.job_id)
            _elsewhere(attempt, late, now)


def _prepared(row: TaskAttempt) -> bool:
    return row.state == ContainerState.STARTING or (row.state == ContainerState.PREPARED and bool(row.digest))


def _start_awaited_since(attempt: JobAttempt, then: datetime, now: datetime) -> bool:
    """Whether its prepared tasks could have started since: a gang's are told to once the last one is prepared, and
    nodes that hear nothing from the portal wait for it."""
    rows = TaskAttempt.objects.filter(job_attempt=attempt)
    last = rows.aggregate(last=Max("prepared_at"))["last"] if attempt.job.gang else None
    return (last is None or last < then) and reports_taken_for(now) > now - then


def _elsewhere(attempt: JobAttempt, late: Sequence[TaskAttempt], now: datetime) -> None:
    """Retries a gang as a whole, else these tasks."""
    alone = all(row.alone for row in late)
    if not alone and not attempt_end(
        attempt=attempt, reason=EndReason.NODE_FAULT, message=_words(late[0]), now=now, stop=StopReason.START_FAILED
    ):
        return
    for row in late:
        if alone:
            tasks_stop([row], reason=StopReason.START_FAILED, message=_words(row), now=now)
            job_event(
                job=attempt.job, job_attempt=attempt, task_attempt=row, code="task_late", now=now, message=_words(row)
            )
        node_avoid(job=attempt.job, node=row.node.name, cause=LATE, now=now)
    for row in {row.node_id: row for row in late}.values():
        if not _others_since(row):
            node_start_failed(node=row.node, user=attempt.job.user.username, cause=LATE, now=now)


def _words(row: TaskAttempt) -> str:
    late = wordings.NOT_STARTED if _prepared(row) else wordings.NOT_PREPARED
    name = f"{row.task.role.name}/{row.task.index}"
    return late(task=name, node=row.node.name, seconds=settings.GANG_PREPARE_TIMEOUT_S)


def _others_since(row: TaskAttempt) -> bool:
    """Whether its node got others this far meanwhile: then a slow registry, a large image or this one container is the
    likelier cause."""
    if _prepared(row):
        meanwhile = Q(started_at__gt=row.prepared_at or row.created_at)
    else:
        meanwhile = Q(prepared_at__gt=row.created_at) | Q(started_at__gt=row.created_at)
    return TaskAttempt.objects.filter(meanwhile, node=row.node_id).exists()
