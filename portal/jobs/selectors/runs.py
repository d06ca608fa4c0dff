"""Task attempts whose logs are read together."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Exists, OuterRef, QuerySet, Subquery

from nodes.protocol.states import ContainerState
from portal.common.prepared import Among, Prepared, Slot
from portal.jobs.models import Job, Task, TaskAttempt

LOGS_TOGETHER = 200
"""How many logs are read as one at most."""
SHOWN = (
    "task__index", "task__role__name", "task__job_id", "job_attempt_id", "node__name", "node__public_key",
    "number", "state", "log_end", "log_complete", "archived_to", "lost_at", "node__health", "node__removed_at",
)  # fmt: skip
"""Columns that a log reader needs; sealed specs and nodes' inventories are long."""


def runs_together(*, job: Job, attempt: int | None, chosen: Collection[UUID] = ()) -> list[TaskAttempt]:
    """Task attempts with node and role, in the file's order: the chosen ones, else each task's newest, in the job's
    attempt of this number if given. At most ``LOGS_TOGETHER``; one query, which reads no more than these."""
    if chosen:
        return _CHOSEN(job=job.pk, runs=list(chosen)[:LOGS_TOGETHER])
    return _NEWEST(job=job.pk) if attempt is None else _NEWEST_IN(job=job.pk, attempt=attempt)


def _shown() -> QuerySet[TaskAttempt]:
    return TaskAttempt.objects.select_related("node", "task__role").only(*SHOWN)


def _chosen() -> QuerySet[TaskAttempt]:
    return _shown().filter(Among("id", "runs"), task__job_id=Slot("job", int)).order_by("task_id", "-number")


def _newest(**conditions: Any) -> QuerySet[TaskAttempt]:
    """The newest attempt of each of the first tasks that have one."""
    of_task = TaskAttempt.objects.filter(task=OuterRef("pk"), **conditions)
    begun = Task.objects.filter(Exists(of_task), job_id=Slot("job", int)).order_by("pk")
    newest = of_task.order_by("-number").values("pk")[:1]
    first = begun.annotate(newest=Subquery(newest)).values("newest")[:LOGS_TOGETHER]
    return _shown().filter(pk__in=first).order_by("task_id")


_CHOSEN = Prepared(_chosen)
_NEWEST = Prepared(_newest)
_NEWEST_IN = Prepared(lambda: _newest(job_attempt__number=Slot("attempt", int)))


@dataclass(frozen=True, slots=True)
class CodeWait:
    """A task whose node cannot get its job's code: why, as the node says, and until when it tries."""

    task: str
    node: str
    why: str
    since: datetime
    until: datetime


def code_awaited(*, job: Job) -> CodeWait | None:
    """The first task whose node cannot get the job's code now. When its preparation times out, the attempt ends and is
    retried elsewhere."""
    before = [ContainerState.ACCEPTED, ContainerState.PULLING]
    runs = _shown().filter(task__job=job, state__in=before, lost_at=None, progress__code="code_unavailable")
    run = runs.only(*SHOWN, "progress", "created_at", "lease_over_at").order_by("created_at", "id").first()
    if run is None:
        return None
    since = run.lease_over_at or run.created_at
    until = since + timedelta(seconds=settings.GANG_PREPARE_TIMEOUT_S)
    return CodeWait(run_name(run), run.node.name, run.progress["message"], since, until)


def run_name(run: TaskAttempt) -> str:
    """``worker/3``; needs task and role loaded."""
    return f"{run.task.role.name}/{run.task.index}"
