"""What the pages show of jobs: counts, and a list that is paged by the newest id."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import Count, Q, QuerySet, Subquery

from portal.accounts.models import User
from portal.jobs.models import Job, Task, TaskAttempt
from portal.jobs.selectors.idle import idle_mark
from portal.jobs.selectors.lists import jobs_listed
from portal.jobs.selectors.tasks import job_tasks, tasks_run
from portal.jobs.states import JOB_LIVE, JobState

PAGE = 50
TASKS_PAGE = 200


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list; what is empty does not filter."""

    states: Collection[str] = ()
    vc: str = ""
    user: User | None = None
    text: str = ""
    before: int | None = None


@dataclass(frozen=True, slots=True)
class JobsPage:
    """A page of jobs, newest first; ``older`` is the id before which the next page begins."""

    jobs: list[Job]
    older: int | None

    @property
    def live(self) -> bool:
        """Whether one of them may still change."""
        return any(job.state in JOB_LIVE for job in self.jobs)


def jobs_found(*, user: User, only: JobFilter, limit: int = PAGE) -> JobsPage:
    """The newest jobs that the user may see and that pass the filter."""
    jobs = list(_filtered(jobs_listed(user=user), only).order_by("-submitted_at", "-id")[: limit + 1])
    idle_mark(jobs=jobs)
    return JobsPage(jobs[:limit], jobs[limit - 1].pk if len(jobs) > limit else None)


def _filtered(jobs: QuerySet[Job], only: JobFilter) -> QuerySet[Job]:
    if only.states:
        jobs = jobs.filter(state__in=only.states)
    if only.vc:
        jobs = jobs.filter(vc__name=only.vc)
    if only.user is not None:
        jobs = jobs.filter(user=only.user)
    if only.text:
        jobs = jobs.filter(Q(name__icontains=only.text) | Q(user__username__icontains=only.text))
    return jobs if only.before is None else _before(jobs, only.before)


def _before(jobs: QuerySet[Job], job: int) -> QuerySet[Job]:
    """Those that come after it in the list. That they were not submitted later is said by itself, so that an index is
    entered there."""
    at = Subquery(Job.objects.filter(pk=job).values("submitted_at"))
    return jobs.filter(Q(submitted_at__lt=at) | Q(pk__lt=job), submitted_at__lte=at)


def job_counts(*, user: User) -> dict[str, int]:
    """How many of the user's own jobs are in which state; every state is there."""
    rows = Job.objects.filter(user=user).order_by().values_list("state").annotate(number=Count("pk"))
    return {str(state): 0 for state in JobState} | dict(rows)


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
        """Where the page before begins."""
        return max(0, self.first - TASKS_PAGE) if self.first else None

    @property
    def later(self) -> int | None:
        """Where the page after begins."""
        after = self.first + TASKS_PAGE
        return after if after < self.total else None


def tasks_found(*, job: Job, attempt: int | None, first: int) -> TasksPage:
    """Tasks with their newest attempts, those of one job attempt where ``attempt`` names it."""
    tasks = job_tasks(job=job)
    shown = tasks_run(tasks=list(tasks[first : first + TASKS_PAGE]), attempt=attempt)
    return TasksPage(shown, first, tasks.count())
