"""Details of one job: roles, tasks, attempts, events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, QuerySet

from nodes.protocol.states import ContainerState
from portal.common.errors import NotFound
from portal.common.prepared import Among, Prepared, Slot
from portal.jobs.models import Allocation, Job, JobAttempt, JobEvent, Standing, Task, TaskAttempt, TaskRole
from portal.jobs.selectors.visible import with_task

RUNNING_LISTED = 500


@dataclass(frozen=True, slots=True)
class RoleState:
    """A task role with its number of tasks by state."""

    role: TaskRole
    tasks: dict[str, int]


def job_roles(*, job: Job) -> list[RoleState]:
    """The roles in the file's order; two queries."""
    counts: dict[int, dict[str, int]] = defaultdict(dict)
    for role, state, number in _COUNTS(job=job.pk):
        counts[role][state] = number
    return [RoleState(role, counts[role.pk]) for role in _ROLES(job=job.pk)]


def _counts() -> QuerySet[Task, tuple[int, str, int]]:
    rows = Task.objects.filter(job_id=Slot("job", int)).order_by()
    return rows.values_list("role", "state").annotate(number=Count("pk"))


_COUNTS = Prepared(_counts)
_ROLES = Prepared(lambda: TaskRole.objects.filter(job_id=Slot("job", int)).select_related("sku"))


def job_attempts(*, job: Job) -> QuerySet[JobAttempt]:
    """The job's attempts, newest first."""
    return job.attempts.order_by("-id")


def job_loan(*, job: Job) -> int:
    """How many GPUs the job holds on loan now. One query."""
    return len(_LOANS(job=job.pk, standing=Standing.BORROWED.value))


_LOANS = Prepared(
    lambda: Allocation.objects.filter(
        task_attempt__task__job_id=Slot("job", int), standing=Slot("standing", str), released_at__isnull=True
    ).order_by().values_list("pk", flat=True)
)  # fmt: skip


def job_attempt_current(*, job: Job) -> JobAttempt | None:
    """The newest attempt, live or not; None before the first start."""
    return _NEWEST.first(job=job.pk)


_NEWEST = Prepared(lambda: JobAttempt.objects.filter(job_id=Slot("job", int)).order_by("-id")[:1])


def job_events(*, job: Job) -> QuerySet[JobEvent]:
    """The job's events, oldest first, with the role and index of the task that each is about."""
    return _with_tasks(job.events.all()).order_by("id")


def events_read(*, ids: Sequence[int]) -> list[JobEvent]:
    """The events with these ids, loaded like ``job_events``, in this order. One query."""
    rows = {event.pk: event for event in _EVENTS(events=ids)}
    return [rows[one] for one in ids if one in rows]


def _with_tasks(events: QuerySet[JobEvent]) -> QuerySet[JobEvent]:
    rows = events.select_related("job_attempt", "task_attempt__task__role")
    return rows.defer("task_attempt__spec_sealed", "task_attempt__log_tail")


_EVENTS = Prepared(lambda: _with_tasks(JobEvent.objects.filter(Among("id", "events"))).order_by())


def task_attempt_of(*, job: Job, role: str, index: int, attempt: int | None = None) -> TaskAttempt:
    """The newest attempt of a task of the job, or the newest in the job's attempt of this number; NotFound if there is
    none (yet)."""
    values = {"job": job.pk, "role": role, "index": index}
    newest = _RUN.first(**values) if attempt is None else _RUN_IN.first(**values, attempt=attempt)
    if newest is None:
        raise NotFound("attempt of task", f"{role}/{index}")
    return newest


def first_role(*, job: Job) -> str:
    """The name of the first task role in the job's file."""
    return _FIRST_ROLE(job=job.pk)[0]


_FIRST_ROLE = Prepared(
    lambda: TaskRole.objects.filter(job_id=Slot("job", int)).order_by("position").values_list("name", flat=True)[:1]
)


def task_runs(*, job: Job, attempt: int | None, first: int, limit: int) -> tuple[list[TaskAttempt], int]:
    """The newest attempts of ``limit`` tasks, from task ``first`` (0-based) in the file's order, in the job's attempt
    of this number; and the number of tasks. Three queries."""
    tasks = Task.objects.filter(job=job)
    some = list(tasks.order_by("id").values_list("id", flat=True)[first : first + limit])
    rows = TaskAttempt.objects.filter(task__in=some, job_attempt__job=job, job_attempt__number=attempt or 0)
    rows = rows.select_related("node", "task__role")
    newest = {row.task_id: row for row in rows.defer("spec_sealed", "log_tail").order_by("task_id", "number")}
    return list(newest.values()), tasks.count()


def tasks_running(*, job: Job) -> list[TaskAttempt]:
    """The task attempts of the job whose containers run now, in the file's order; the first 500."""
    runs = TaskAttempt.objects.filter(task__job=job, state=ContainerState.RUNNING, lost_at=None)
    return list(runs.select_related("node", "task__role").defer("spec_sealed").order_by("task_id")[:RUNNING_LISTED])


def _runs() -> QuerySet[TaskAttempt]:
    # Conditions on the joins: a task found by itself would come last of nine tables, all of which the database would
    # search first (its join_collapse_limit is 8).
    of_task = {"task__role__name": Slot("role", str), "task__index": Slot("index", int)}
    runs = TaskAttempt.objects.filter(task__job_id=Slot("job", int), **of_task)
    return with_task(runs).order_by("-number")


_RUN = Prepared(lambda: _runs()[:1])
_RUN_IN = Prepared(lambda: _runs().filter(job_attempt__number=Slot("attempt", int))[:1])
