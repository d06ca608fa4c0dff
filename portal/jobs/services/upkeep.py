"""What the cycle sets right: tasks of lost nodes, starts that take too long, time limits, ends that were missed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F

from nodes.protocol import ContainerState, Phase, StopReason
from portal.clusters.models import Node
from portal.clusters.states import NodeHealth
from portal.common.live import announce
from portal.jobs.models import Job, JobAttempt, TaskAttempt
from portal.jobs.services.attempts import (
    LIVE,
    attempt_end,
    attempt_run_when_prepared,
    tasks_stop,
)
from portal.jobs.services.drain import nodes_drain
from portal.jobs.services.holding import task_attempt_uncharge
from portal.jobs.services.moves import job_announce, job_event, job_hold, jobs_hold
from portal.jobs.services.outcomes import attempt_decide, task_attempt_ended
from portal.jobs.services.reports import attempt_log_done
from portal.jobs.services.specs import grace_seconds
from portal.jobs.spec import JobSpec
from portal.jobs.states import AttemptState, EndReason, JobState

NOT_PREPARED = [ContainerState.ACCEPTED, ContainerState.PULLING]
NOT_STARTED = [*NOT_PREPARED, ContainerState.PREPARED]
REASON_REWRITE = timedelta(minutes=1)
ANNOUNCED_SINGLY = 50
"""Beyond so many changed reasons open pages are told once that the queue moved."""


def jobs_reconcile(*, now: datetime) -> None:
    """Do again, from the rows alone, whatever a lost message or a killed process left undone."""
    _lost_nodes(now)
    nodes_drain(now=now)
    starting = {"tasks__phase__in": [Phase.PREPARE, Phase.RUN], "tasks__state__in": NOT_STARTED}
    for attempt in _attempts(state__in=[AttemptState.STARTING, AttemptState.RUNNING], **starting):
        _starting(attempt, now)
    for attempt in _attempts(state=AttemptState.ENDING):
        with transaction.atomic():
            job_hold(attempt.job_id)
            attempt_decide(attempt=attempt, now=now)
    _time_limits(now)
    _logs_done()


def _attempts(**condition: Any) -> Iterable[JobAttempt]:
    return JobAttempt.objects.filter(**condition).select_related("job__user").distinct().order_by("id")


def _lost_nodes(now: datetime) -> None:
    rows = TaskAttempt.objects.filter(LIVE, node__health=NodeHealth.LOST)
    for node in Node.objects.filter(pk__in=rows.values("node")).order_by("id"):
        node_tasks_lose(node=node, now=now)


def node_tasks_lose(*, node: Node, now: datetime) -> None:
    """Give up the node's live tasks: their attempts end with ``node lost``; what they still send is only kept."""
    rows = TaskAttempt.objects.filter(LIVE, node=node).select_related("task__role", "node", "job_attempt__job__user")
    for row in rows:
        with transaction.atomic():
            job_hold(row.job_attempt.job_id)
            if not TaskAttempt.objects.filter(LIVE, pk=row.pk).update(lost_at=now):
                continue
            row.lost_at = now
            tasks_stop([row], reason=StopReason.LOST, message=f"The portal gave node {node.name} up.", grace_s=0)
            task_attempt_uncharge(row=row, now=now)
            job_event(
                job=row.job_attempt.job, job_attempt=row.job_attempt, task_attempt=row, code="task_lost", now=now,
                message=f"Task {row.task.role.name}/{row.task.index} was lost with node {node.name}.",
            )  # fmt: skip
            task_attempt_ended(row=row, now=now)


def _starting(attempt: JobAttempt, now: datetime) -> None:
    if attempt_run_when_prepared(attempt=attempt, now=now):
        return
    limit = timedelta(seconds=settings.GANG_PREPARE_TIMEOUT_S)
    rows = TaskAttempt.objects.filter(
        LIVE, job_attempt=attempt, phase__in=[Phase.PREPARE, Phase.RUN], state__in=NOT_PREPARED,
        created_at__lt=now - limit,
    ).select_related("node", "task__role")  # fmt: skip
    # Not asked of the database: excluding by a key leaves out the rows that have no such key.
    late = next((row for row in rows if row.progress.get("code") != "lease"), None)
    if late is not None:
        attempt_end(
            attempt=attempt, reason=EndReason.NODE_FAULT, now=now, stop=StopReason.START_FAILED,
            message=f"Task {late.task.role.name}/{late.task.index} was not prepared on {late.node.name} within "
            f"{settings.GANG_PREPARE_TIMEOUT_S} s.",
        )  # fmt: skip


def _time_limits(now: datetime) -> None:
    running = _attempts(state=AttemptState.RUNNING, job__spec__berth__time_limit_s__gt=0)
    for attempt in running:
        spec = JobSpec.from_json(attempt.job.spec)
        limit = spec.berth.time_limit_s
        if limit is not None and attempt.started_at and now - attempt.started_at >= timedelta(seconds=limit):
            attempt_end(
                attempt=attempt, reason=EndReason.TIME_LIMIT, message=f"Its time limit of {limit} s was reached.",
                now=now, stop=StopReason.TIME_LIMIT, grace_s=grace_seconds(spec.berth.grace_period_s),
            )  # fmt: skip


def _logs_done() -> None:
    rows = TaskAttempt.objects.filter(
        state=ContainerState.TERMINATED, log_complete=True, archived_to__gte=F("log_end"), removed_at__isnull=True
    ).exclude(phase=Phase.REMOVE)
    for row in rows.select_related("job_attempt"):
        attempt_log_done(row=row)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a job waits, as the plan said."""

    job_id: int
    code: str
    message: str
    numbers: dict[str, Any] = field(default_factory=dict)


def waits_write(*, waits: Iterable[Waiting], now: datetime) -> int:
    """Store reasons whose code changed, or that are older than a minute; how many were written."""
    by_id = {wait.job_id: wait for wait in waits}
    stale = Job.objects.filter(pk__in=by_id, state=JobState.WAITING).only(
        "id", "waiting_code", "waiting_message", "waiting_numbers", "waiting_written_at", "vc_id", "user_id"
    )
    changed = []
    for job in stale:
        wait = by_id[job.pk]
        fresh = job.waiting_written_at is not None and now - job.waiting_written_at < REASON_REWRITE
        if job.waiting_code == wait.code and (fresh or job.waiting_message == wait.message):
            continue
        job.waiting_code, job.waiting_message = wait.code, wait.message
        job.waiting_numbers, job.waiting_written_at = wait.numbers, now
        changed.append(job)
    if not changed:
        return 0
    columns = ["waiting_code", "waiting_message", "waiting_numbers", "waiting_written_at"]
    with transaction.atomic():
        jobs_hold([job.pk for job in changed])
        Job.objects.bulk_update(changed, columns, batch_size=500)
        if len(changed) <= ANNOUNCED_SINGLY:
            for job in changed:
                job_announce(job)
        transaction.on_commit(lambda: announce("queue", {}))
    return len(changed)
