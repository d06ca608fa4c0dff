"""Which runs of a job's tasks are looked at together."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, QuerySet, Subquery

from portal.jobs.models import Job, Task, TaskAttempt

LOGS_TOGETHER = 200
"""So many logs are read as one at most."""
SHOWN = (
    "task__index", "task__role__name", "task__job_id", "job_attempt_id", "node__name", "node__public_key",
    "number", "state", "log_end", "log_complete",
)  # fmt: skip
"""What a log's reader must know; sealed specs and what nodes tell of themselves are long."""


def runs_together(*, job: Job, attempt: int | None, chosen: Collection[UUID] = ()) -> list[TaskAttempt]:
    """Runs of the job's tasks with node and role, in the file's order: the chosen ones, else of each task the newest,
    in the job's attempt of this number where one is named. At most ``LOGS_TOGETHER``; one query, which reads no more
    than these."""
    runs = TaskAttempt.objects.select_related("node", "task__role").only(*SHOWN)
    if chosen:
        found = runs.filter(task__job=job, pk__in=list(chosen)[:LOGS_TOGETHER])
        return list(found.order_by("task_id", "-number"))
    return list(runs.filter(pk__in=_newest(job, attempt)).order_by("task_id"))


def _newest(job: Job, attempt: int | None) -> QuerySet[Any, Any]:
    """The newest run of each of the first tasks that have one."""
    of_task = TaskAttempt.objects.filter(task=OuterRef("pk"))
    if attempt is not None:
        of_task = of_task.filter(job_attempt__number=attempt)
    begun = Task.objects.filter(Exists(of_task), job=job).order_by("pk")
    newest = of_task.order_by("-number").values("pk")[:1]
    return begun.annotate(newest=Subquery(newest)).values("newest")[:LOGS_TOGETHER]


def run_name(run: TaskAttempt) -> str:
    """``worker/3``; needs task and role loaded."""
    return f"{run.task.role.name}/{run.task.index}"
