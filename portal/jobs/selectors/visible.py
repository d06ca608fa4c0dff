"""Jobs that a user may see or touch. Fetching a job and checking the right are one call."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import Case, DurationField, ExpressionWrapper, F, OuterRef, Q, QuerySet, Subquery, Sum, When
from django.utils.translation import gettext, gettext_noop

from portal.accounts.models import User
from portal.accounts.rights import Action
from portal.common.errors import Denied, NotFound
from portal.common.prepared import Prepared, Slot
from portal.jobs.models import Job, JobAttempt, TaskAttempt
from portal.jobs.states import AttemptState, JobState
from portal.teams.selectors.visible import job_sight

_REFUSALS = {
    Action.JOB_STOP: gettext_noop("Only its owner, a lead of its virtual cluster or an administrator may stop a job."),
    Action.JOB_MOVE: gettext_noop("Only its owner, a lead of its virtual cluster or an administrator may move a job."),
    Action.JOB_PAUSE: gettext_noop(
        "Only its owner, a lead of its virtual cluster or an administrator may pause a job."
    ),
    Action.JOB_TAG: gettext_noop(
        "Only its owner, a lead of its virtual cluster or an administrator may change a job's tags."
    ),
    Action.JOB_PRIORITY: gettext_noop(
        "Only its owner, a lead of its virtual cluster or an administrator may change its priority."
    ),
    Action.JOB_ORDER: gettext_noop(
        "Only its owner, a lead of its virtual cluster or an administrator may move it in the queue."
    ),
    Action.JOB_FILES: gettext_noop(
        "Only its owner, a lead of its virtual cluster, administrators and auditors see a job's files."
    ),
    Action.IDLE_EXTEND: gettext_noop(
        "Only its owner, a lead of its virtual cluster or an administrator may put this off."
    ),
    Action.JOB_SHELL: gettext_noop("Only its owner or an administrator may open a shell in a job."),
}

RUNS = (JobState.RUNNING, JobState.STOPPING)
HEAVY = ("spec", "config", "secrets_sealed")
"""Columns that lists of jobs defer."""


def job_restrict(*, user: User, action: Action = Action.JOB_READ, vc: int | None = None) -> QuerySet[Job]:
    """Jobs on which the user may do this, newest first; of one virtual cluster if ``vc`` names it. In a team that is
    not the user's these are only their own, which the database would otherwise search for among all jobs."""
    sight, rows = job_sight(user=user, action=action), Job.objects.all()
    if vc is not None:
        rows = rows.filter(vc=vc)
        return rows if sight.everything or vc in sight.vcs else rows.filter(user=sight.own)
    return rows if sight.everything else rows.filter(Q(user=sight.own) | Q(vc__in=sight.vcs))


def job_get(*, user: User, job_id: int) -> Job:
    """The job with its user and VC; NotFound if there is none that the user may see."""
    job = _JOB.first(job=job_id)
    if job is None or not job_sight(user=user).covers(user_id=job.user_id, vc_id=job.vc_id):
        raise NotFound("job", job_id)
    return job


def _attempts() -> QuerySet[JobAttempt]:
    return JobAttempt.objects.filter(job=OuterRef("pk")).order_by()


def _ended() -> QuerySet[JobAttempt, Any]:
    over = _attempts().filter(started_at__isnull=False, ended_at__isnull=False).values("job")
    length = ExpressionWrapper(F("ended_at") - F("started_at"), output_field=DurationField())
    return over.annotate(ran=Sum(length)).values("ran")


def _when(condition: Q, rows: QuerySet[Any, Any]) -> Case:
    """Evaluates the subquery only where it can match: most listed jobs waited once, and are over."""
    return Case(When(condition, then=Subquery(rows)), default=None)


def with_times(jobs: QuerySet[Job]) -> QuerySet[Job]:
    """The jobs with ``running_since``, when the running attempt began to run, and ``ran``, how long the ended ones ran,
    without waits between them. Both may be None."""
    return jobs.annotate(
        running_since=_when(Q(state__in=RUNS), _attempts().exclude(state=AttemptState.ENDED).values("started_at")),
        ran=_when(Q(started_at__isnull=False), _ended()),
    )


_JOB = Prepared(
    lambda: with_times(Job.objects.filter(pk=Slot("job", int))).select_related("user", "vc", "code").order_by()
)


def job_with_right(*, user: User, job_id: int, action: Action) -> Job:
    """The job, for doing ``action`` to it. NotFound if the user may not even see it, Denied if no more than that."""
    job = job_get(user=user, job_id=job_id)
    if not job_sight(user=user, action=action).covers(user_id=job.user_id, vc_id=job.vc_id):
        raise Denied(gettext(_REFUSALS[action]))
    return job


def task_attempt_with_right(*, user: User, attempt_id: UUID | str, action: Action) -> TaskAttempt:
    """The task attempt, for doing ``action`` to its job. NotFound if the user may not even see it, Denied if no more
    than that."""
    attempt = task_attempt_visible(user, attempt_id)
    job = attempt.task.job
    if not job_sight(user=user, action=action).covers(user_id=job.user_id, vc_id=job.vc_id):
        raise Denied(gettext(_REFUSALS[action]))
    return attempt


def task_attempt_visible(user: User, attempt_id: UUID | str) -> TaskAttempt:
    """The task attempt with its task, job and node; NotFound if there is none that the user may see."""
    try:
        key = UUID(str(attempt_id))
    except ValueError:
        raise NotFound("task attempt", attempt_id) from None
    attempt = _ATTEMPT.first(attempt=key)
    job = attempt.task.job if attempt else None
    if attempt is None or job is None or not job_sight(user=user).covers(user_id=job.user_id, vc_id=job.vc_id):
        raise NotFound("task attempt", attempt_id)
    return attempt


def with_task(attempts: QuerySet[TaskAttempt]) -> QuerySet[TaskAttempt]:
    """Task attempts with task, role, job, job attempt and node, without long columns that only agents, the scheduler
    and the job file's page need."""
    heavy = ("spec_sealed", "log_tail", "node__inventory", *(f"task__job__{name}" for name in HEAVY))
    return attempts.select_related("task__job__vc", "task__role", "node", "job_attempt").defer(*heavy)


_ATTEMPT = Prepared(lambda: with_task(TaskAttempt.objects.filter(pk=Slot("attempt", UUID))).order_by())
