"""Jobs by OpenPAI's names and filters; a fixed number of queries for any number of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import (
    Case,
    CharField,
    Count,
    Exists,
    F,
    IntegerField,
    Min,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.expressions import OrderBy
from django.db.models.functions import Coalesce

from nodes.protocol.states import Cause, ContainerState
from portal.accounts.models import User
from portal.accounts.rights import Action
from portal.common.errors import Denied
from portal.common.priorities import PRIORITY_CLASSES
from portal.jobs.models import Job, JobAttempt, JobEvent, JobTag, Task, TaskAttempt, TaskRole
from portal.jobs.selectors.details import job_attempts, job_events
from portal.jobs.selectors.lists import jobs_listed
from portal.jobs.selectors.visible import job_with_right
from portal.jobs.states import JobState
from portal.openpai.errors import forbidden, no_job
from portal.openpai.names import LONGEST, named
from portal.openpai.states import JOBS, PaiState, states_of

ORDERS = {
    "jobName": "name",
    "submissionTime": "pk",  # ids grow with it, and need no sorting
    "username": "user__username",
    "vc": "vc__name",
    "retries": "retries",
    "totalTaskNumber": "task_count",
    "totalGpuNumber": "gpu_count",
    "state": "pai_state",
    "completionTime": "ended_at",
    "jobPriority": "priority",
}
"""What a list may be ordered by."""
AT_ONCE = 10_000
"""So many ids in one query; a database takes only so many."""
MOST_JOBS, MOST_EVENTS = 5000, 1000
"""So many of them are answered at once: lists of OpenPAI have no pages of their own, and lie in memory whole."""
MOST_ATTEMPTS, MOST_TASKS = 100, 10_000
"""Of a job's history so many runs at most, and as many as name so many tasks together: 1 kB each. The newest always."""


@dataclass(frozen=True, slots=True)
class JobsAsked:
    """Which jobs to list; what is empty does not filter. Several words of one filter: any of them."""

    users: Sequence[str] = ()
    vcs: Sequence[str] = ()
    states: Sequence[PaiState] = ()
    priorities: Sequence[str] = ()
    keyword: str = ""
    tags: Sequence[str] = ()
    tags_not: Sequence[str] = ()
    order: str = "submissionTime"
    descending: bool = True
    offset: int = 0
    limit: int = 5000
    counted: bool = False


@dataclass(frozen=True, slots=True)
class JobsFound:
    """A stretch of the list; ``total`` None: not asked for. ``tags`` and ``causes``: by the jobs' ids."""

    jobs: list[Job]
    total: int | None
    tags: dict[int, list[str]]
    causes: dict[int, str]


def jobs_found(*, user: User, asked: JobsAsked) -> JobsFound:
    """The jobs that the user may see and that pass the filters; each with ``roles_count``."""
    jobs = jobs_listed(user=user).filter(_filter(asked))
    total = jobs.count() if asked.counted else None
    words = (When(state=ours, then=Value(str(one.state))) for ours, one in JOBS.items())
    shown = Case(*words, output_field=CharField())
    ordered = jobs.annotate(pai_state=shown, roles_count=_roles_count()).order_by(*_order(asked))
    found: list[Job] = list(ordered[asked.offset : asked.offset + min(asked.limit, MOST_JOBS)])
    return JobsFound(found, total, tags_of(jobs=found), causes_of(jobs=found))


def tags_of(*, jobs: Sequence[Job]) -> dict[int, list[str]]:
    """The tags of each job that has some, by its id, oldest first."""
    ids = [job.pk for job in jobs]
    tags: dict[int, list[str]] = {}
    for first in range(0, len(ids), AT_ONCE):
        rows = JobTag.objects.filter(job__in=ids[first : first + AT_ONCE]).order_by("id").values_list("job", "name")
        for job, name in rows:
            tags.setdefault(job, []).append(name)
    return tags


def causes_of(*, jobs: Sequence[Job]) -> dict[int, str]:
    """What ended the task that made each job fail, by the job's id: the first of its newest run that did not end well,
    where it ended as the job did."""
    failed = {job.pk: job.exit_code for job in jobs if job.state == JobState.FAILED}
    ids = [*failed]
    causes: dict[int, str] = {}
    newest = TaskAttempt.objects.filter(job_attempt__number=F("job_attempt__job__retries") + 1, ended_at__isnull=False)
    ends = newest.exclude(cause=Cause.STOPPED).exclude(cause=Cause.EXITED, exit_code=0).order_by()
    for first in range(0, len(ids), AT_ONCE):
        rows = ends.filter(job_attempt__job__in=ids[first : first + AT_ONCE])
        by_end = rows.values_list("job_attempt__job", "cause", "exit_code").annotate(at=Min("ended_at")).order_by("-at")
        first_of = {key: (cause, code) for key, cause, code, _ in by_end}  # the earliest comes last
        causes |= {key: cause for key, (cause, code) in first_of.items() if code == failed[key]}
    return causes


def _roles_count() -> Coalesce:
    rows = TaskRole.objects.filter(job=OuterRef("pk")).order_by().values("job").annotate(number=Count("pk"))
    return Coalesce(Subquery(rows.values("number"), output_field=IntegerField()), 0)


def _order(asked: JobsAsked) -> list[OrderBy]:
    column = F(ORDERS[asked.order])
    by_id = [] if asked.order == "submissionTime" else [F("pk").desc() if asked.descending else F("pk").asc()]
    return [column.desc(nulls_first=True) if asked.descending else column.asc(nulls_last=True), *by_id]


def _filter(asked: JobsAsked) -> Q:
    wanted = Q()
    if asked.users:
        wanted &= Q(user__username__in=asked.users)
    if asked.vcs:
        wanted &= Q(vc__name__in=asked.vcs)
    if asked.states:
        wanted &= Q(state__in=[ours for state in asked.states for ours in states_of(state)])
    if asked.priorities:
        wanted &= Q(priority__in=[number for name, number in PRIORITY_CLASSES.items() if name in asked.priorities])
    if asked.keyword:
        word = asked.keyword
        wanted &= Q(name__icontains=word) | Q(user__username__icontains=word) | Q(vc__name__icontains=word)
    if asked.tags:
        wanted &= Q(_tagged(asked.tags))
    if asked.tags_not:
        wanted &= ~Q(_tagged(asked.tags_not))
    return wanted


def _tagged(names: Sequence[str]) -> Exists:
    return Exists(JobTag.objects.filter(job=OuterRef("pk"), name__in=names))


def job_found(*, user: User, framework: str) -> Job:
    """The job of ``user~name`` as lists have it; NoJobError when there is none that the user may see. Where a name
    could mean two jobs, it is the one whose file has exactly this name."""
    owner, _, name = framework.partition("~")
    if not name or len(framework) > LONGEST or "\0" in framework:
        raise no_job(framework[:LONGEST])
    jobs = jobs_listed(user=user).filter(named(owner, name)).annotate(roles_count=_roles_count())
    job = jobs.order_by("run").first()
    if job is None:
        raise no_job(framework)
    return job


@dataclass(frozen=True, slots=True)
class AttemptSeen:
    """A run of a job as OpenPAI counts them, from 0. ``row`` None: the one that its job waits for. ``newest``: the last
    run of each task in it, ``firsts`` the number of the first one, both by the task's id."""

    index: int
    latest: bool
    row: JobAttempt | None
    roles: list[TaskRole]
    tasks: dict[int, list[Task]]
    newest: dict[int, TaskAttempt]
    firsts: dict[int, int]

    def named(self, role: TaskRole) -> list[Task]:
        """All tasks of the role in the newest run of the job; of an earlier one those that ran in it."""
        tasks = self.tasks.get(role.pk, [])
        return tasks if self.latest else [task for task in tasks if task.pk in self.newest]

    def run_index(self, run: TaskAttempt) -> int:
        """Which run of its task in this attempt it is, from 0."""
        return run.number - self.firsts[run.task_id]


def attempt_seen(*, job: Job, index: int | None) -> AttemptSeen:
    """One run of the job with its tasks, the newest where ``index`` is None; NoJobError when there is none such."""
    rows = _attempt_rows(job)
    if index is None:
        index = len(rows) - 1
    if not 0 <= index < len(rows):
        raise no_job(f"attempt {index}")
    return _seen(job, rows, [index])[0]


def attempts_seen(*, job: Job) -> list[AttemptSeen]:
    """The runs of the job with their tasks, newest first, as many as are told at once; a fixed number of queries."""
    rows = _attempt_rows(job)
    return _seen(job, rows, [*reversed(range(_first_told(job, rows), len(rows)))])


def _first_told(job: Job, rows: Sequence[JobAttempt | None]) -> int:
    """Which run is the oldest that is answered beside all that came after it."""
    counted = TaskAttempt.objects.filter(job_attempt__job=job).order_by().values_list("job_attempt")
    ran = dict(counted.annotate(tasks=Count("task", distinct=True)))
    first, room = len(rows) - 1, MOST_TASKS - job.__dict__["task_count"]
    for index in range(first - 1, max(len(rows) - MOST_ATTEMPTS, 0) - 1, -1):
        row = rows[index]
        room -= ran.get(row.pk, 0) if row else 0
        if room < 0:
            break
        first = index
    return first


def _attempt_rows(job: Job) -> list[JobAttempt | None]:
    """Oldest first; a job that waits stands before its next run already, and one that never ran had one."""
    rows: list[JobAttempt | None] = [*job_attempts(job=job).order_by("number")]
    return [*rows, None] if job.state == JobState.WAITING or not rows else rows


def _seen(job: Job, rows: list[JobAttempt | None], indices: list[int]) -> list[AttemptSeen]:
    tasks: dict[int, list[Task]] = defaultdict(list)
    for task in Task.objects.filter(job=job).select_related("role").order_by("id"):
        tasks[task.role_id].append(task)
    wanted = [rows[index] for index in indices]
    runs = TaskAttempt.objects.filter(job_attempt__in=[row.pk for row in wanted if row is not None])
    newest: dict[int, dict[int, TaskAttempt]] = defaultdict(dict)
    for run in _loaded(runs.filter(number=_last_number())):
        newest[run.job_attempt_id][run.task_id] = run
    firsts: dict[int, dict[int, int]] = defaultdict(dict)
    for attempt, key, first in runs.order_by().values_list("job_attempt", "task").annotate(first=Min("number")):
        firsts[attempt][key] = first
    roles = list(job.roles.all())

    def seen(index: int) -> AttemptSeen:
        row = rows[index]
        key = 0 if row is None else row.pk
        return AttemptSeen(index, index == len(rows) - 1, row, roles, tasks, newest[key], firsts[key])

    return [seen(index) for index in indices]


def _last_number() -> Subquery:
    same = TaskAttempt.objects.filter(task=OuterRef("task"), job_attempt=OuterRef("job_attempt"))
    return Subquery(same.order_by("-number").values("number")[:1])


def _loaded(runs: QuerySet[TaskAttempt]) -> QuerySet[TaskAttempt]:
    """With their nodes and GPUs, without what is large."""
    return runs.select_related("node").prefetch_related("allocations__leaf").defer("spec_sealed", "log_tail")


def runs_open(*, user: User, job: Job) -> list[TaskAttempt]:
    """The running containers of the job into which there is SSH, in the order of its tasks, for who may open a shell in
    them; ForbiddenUserError for others."""
    try:
        job_with_right(user=user, job_id=job.pk, action=Action.JOB_SHELL)
    except Denied as error:
        raise forbidden(error.detail) from error
    runs = TaskAttempt.objects.filter(task__job=job, state=ContainerState.RUNNING, lost_at__isnull=True)
    return [run for run in runs.select_related("node").order_by("task_id") if run.ssh.get("state") == "open"]


def task_runs(*, job: Job, attempt: AttemptSeen, role: str, index: int) -> tuple[Task, list[TaskAttempt]] | None:
    """A task and all its runs in that attempt, oldest first, with their nodes and GPUs; None when there is no such
    task."""
    task = Task.objects.filter(job=job, role__name=role, index=index).select_related("role").first()
    if task is None:
        return None
    runs = TaskAttempt.objects.filter(task=task, job_attempt=attempt.row) if attempt.row else TaskAttempt.objects.none()
    return task, list(_loaded(runs).order_by("number"))


def events_found(*, job: Job, only: Q) -> tuple[list[JobEvent], int]:
    """What happened to the job, newest first, as many as are answered at once, and how many there are."""
    events = job_events(job=job).filter(only)
    return list(events.order_by("-id")[:MOST_EVENTS]), events.count()
