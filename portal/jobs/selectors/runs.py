"""Which runs of a job's tasks are looked at together."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from portal.jobs.models import Job, TaskAttempt

LOGS_TOGETHER = 200
"""So many logs are read as one at most."""


def runs_together(*, job: Job, attempt: int | None, chosen: Collection[UUID] = ()) -> list[TaskAttempt]:
    """Runs of the job's tasks with node and role, in the file's order: the chosen ones, else of each task the newest,
    in the job's attempt of this number where one is named. At most ``LOGS_TOGETHER``; one query."""
    runs = TaskAttempt.objects.filter(task__job=job).select_related("node", "task__role")
    if chosen:
        runs = runs.filter(pk__in=chosen)
    elif attempt is not None:
        runs = runs.filter(job_attempt__number=attempt)
    ordered = runs.defer("spec_sealed", "log_tail").order_by("task_id", "-number")
    if chosen:
        return list(ordered[:LOGS_TOGETHER])
    newest = {run.task_id: run for run in reversed(ordered)}
    return [newest[task] for task in sorted(newest)][:LOGS_TOGETHER]


def run_name(run: TaskAttempt) -> str:
    """``worker/3``; needs task and role loaded."""
    return f"{run.task.role.name}/{run.task.index}"
