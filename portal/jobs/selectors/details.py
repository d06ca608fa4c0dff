"""One job from near: roles, tasks, attempts, events."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from django.db.models import Count, Prefetch, QuerySet

from nodes.protocol import ContainerState
from portal.common.errors import NotFound
from portal.jobs.models import Job, JobAttempt, JobEvent, Task, TaskAttempt, TaskRole

ATTEMPTS_SHOWN = 5
RUNNING_LISTED = 500


@dataclass(frozen=True, slots=True)
class RoleState:
    """A task role and how many of its tasks are in which state."""

    role: TaskRole
    tasks: dict[str, int]


def job_roles(*, job: Job) -> list[RoleState]:
    """The roles in the file's order; two queries."""
    counts: dict[int, dict[str, int]] = defaultdict(dict)
    rows = Task.objects.filter(job=job).order_by().values_list("role", "state").annotate(number=Count("pk"))
    for role, state, number in rows:
        counts[role][state] = number
    return [RoleState(role, counts[role.pk]) for role in job.roles.select_related("sku")]


def job_attempts(*, job: Job) -> QuerySet[JobAttempt]:
    """The job's attempts, newest first."""
    return job.attempts.order_by("-id")


def job_attempt_current(*, job: Job) -> JobAttempt | None:
    """The newest attempt, live or not; None before the first start."""
    return job_attempts(job=job).first()


def job_events(*, job: Job) -> QuerySet[JobEvent]:
    """What happened to the job, oldest first; with the role and index of the task an event is about."""
    events = job.events.select_related("job_attempt", "task_attempt__task__role")
    return events.defer("task_attempt__spec_sealed", "task_attempt__log_tail").order_by("id")


def job_tasks(*, job: Job, attempt: int | None = None) -> QuerySet[Task]:
    """The job's tasks in the file's order, each with ``shown``: its newest attempts (at most five, newest first),
    their nodes and GPUs; those of one job attempt where ``attempt`` names it. Three queries more for a page."""
    runs = TaskAttempt.objects.select_related("node", "job_attempt").prefetch_related("allocations__leaf")
    if attempt is not None:
        runs = runs.filter(job_attempt__number=attempt)
    newest = runs.defer("spec_sealed").order_by("-number")[:ATTEMPTS_SHOWN]
    tasks = Task.objects.filter(job=job).select_related("role").order_by("id")
    return tasks.prefetch_related(Prefetch("attempts", queryset=newest, to_attr="shown"))


def task_attempt_of(*, job: Job, role: str, index: int, attempt: int | None = None) -> TaskAttempt:
    """The newest attempt of a task of the job, or the newest in the job's attempt of this number; NotFound when there
    is none (yet)."""
    runs = TaskAttempt.objects.filter(task__job=job, task__role__name=role, task__index=index)
    if attempt is not None:
        runs = runs.filter(job_attempt__number=attempt)
    newest = runs.select_related("task__job", "task__role", "node", "job_attempt").order_by("-number").first()
    if newest is None:
        raise NotFound("attempt of task", f"{role}/{index}")
    return newest


def task_runs(*, job: Job, attempt: int | None, first: int, limit: int) -> tuple[list[TaskAttempt], int]:
    """The newest runs of the job's tasks in its attempt of this number, in the file's order, beginning with the task
    ``first`` (from 0), of ``limit`` tasks; and how many tasks there are. Three queries."""
    tasks = Task.objects.filter(job=job)
    some = list(tasks.order_by("id").values_list("id", flat=True)[first : first + limit])
    rows = TaskAttempt.objects.filter(task__in=some, job_attempt__job=job, job_attempt__number=attempt or 0)
    rows = rows.select_related("node", "task__role")
    newest = {row.task_id: row for row in rows.defer("spec_sealed", "log_tail").order_by("task_id", "number")}
    return list(newest.values()), tasks.count()


def tasks_running(*, job: Job) -> list[TaskAttempt]:
    """The runs of the job's tasks whose containers run now, in the file's order; the first 500."""
    runs = TaskAttempt.objects.filter(task__job=job, state=ContainerState.RUNNING, lost_at=None)
    return list(runs.select_related("node", "task__role").defer("spec_sealed").order_by("task_id")[:RUNNING_LISTED])
