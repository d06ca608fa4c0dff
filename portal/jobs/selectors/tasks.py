"""A job's tasks with their attempts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import F, QuerySet, Window
from django.db.models.functions import RowNumber

from portal.common.prepared import Among, Prepared, Slot
from portal.jobs.models import Allocation, Job, Task, TaskAttempt

ATTEMPTS_SHOWN = 5
TASKS_PAGE = 200


def job_tasks(*, job: Job) -> QuerySet[Task]:
    """The job's tasks in the file's order, with their roles."""
    return Task.objects.filter(job=job).select_related("role").order_by("id")


def tasks_run(*, tasks: Sequence[Task], attempt: int | None = None) -> list[Task]:
    """The tasks, each with ``shown``: its newest attempts (at most five, newest first) with nodes and GPUs, of one job
    attempt if ``attempt`` names it. Two queries for any number."""
    ids = [task.pk for task in tasks]
    runs = _RUNS(tasks=ids) if attempt is None else _RUNS_IN(tasks=ids, attempt=attempt)
    held: dict[object, dict[int, Allocation]] = defaultdict(dict)
    for row in _HELD(runs=[run.pk for run in runs]) if runs else ():
        held[row.task_attempt_id][row.leaf_id] = row
    shown: dict[int, list[TaskAttempt]] = defaultdict(list)
    for run in runs:
        run.__dict__["_prefetched_objects_cache"] = {"allocations": list(held[run.pk].values())}
        shown[run.task_id].append(run)
    for task in tasks:
        task.__dict__["shown"] = shown[task.pk]
    return list(tasks)


def _runs(runs: QuerySet[TaskAttempt]) -> QuerySet[TaskAttempt]:
    place = Window(RowNumber(), partition_by=F("task_id"), order_by=F("number").desc())
    newest = runs.filter(Among("task", "tasks")).alias(place=place).filter(place__lte=ATTEMPTS_SHOWN)
    heavy = ("spec_sealed", "log_tail", "node__inventory", "node__storages")
    return newest.select_related("node", "job_attempt").defer(*heavy).order_by("task_id", "-number")


_RUNS = Prepared(lambda: _runs(TaskAttempt.objects.all()))
_RUNS_IN = Prepared(lambda: _runs(TaskAttempt.objects.filter(job_attempt__number=Slot("attempt", int))))
_HELD = Prepared(lambda: Allocation.objects.filter(Among("task_attempt", "runs")).select_related("leaf").order_by("id"))


@dataclass(frozen=True, slots=True)
class TasksPage:
    """A page of a job's tasks in the file's order; ``first`` counts from 0."""

    tasks: list[Task]
    first: int
    total: int

    @property
    def newest_runs(self) -> list[TaskAttempt]:
        """The newest attempt of each task that has one."""
        shown: list[list[TaskAttempt]] = [task.__dict__["shown"] for task in self.tasks]
        return [runs[0] for runs in shown if runs]

    @property
    def earlier(self) -> int | None:
        """Where the previous page begins."""
        return max(0, self.first - TASKS_PAGE) if self.first else None

    @property
    def later(self) -> int | None:
        """Where the next page begins."""
        after = self.first + TASKS_PAGE
        return after if after < self.total else None


def tasks_found(*, job: Job, attempt: int | None, first: int) -> TasksPage:
    """A page of tasks with their newest attempts, of one job attempt if ``attempt`` names it."""
    tasks = job_tasks(job=job)
    shown = tasks_run(tasks=list(tasks[first : first + TASKS_PAGE]), attempt=attempt)
    return TasksPage(shown, first, tasks.count())
