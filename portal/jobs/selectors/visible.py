"""Which jobs somebody may see or touch. Fetching and checking the right are one call."""

from __future__ import annotations

from uuid import UUID

from django.db.models import Q, QuerySet

from portal.accounts.models import User
from portal.accounts.rights import Action
from portal.clusters.selectors import job_sight
from portal.common.errors import Denied, NotFound
from portal.jobs.models import Job, TaskAttempt

_REFUSALS = {
    Action.JOB_STOP: "Only its owner, a lead of its virtual cluster or an administrator may stop a job.",
    Action.JOB_MOVE: "Only its owner, a lead of its virtual cluster or an administrator may move a job.",
    Action.JOB_PAUSE: "Only its owner, a lead of its virtual cluster or an administrator may pause a job.",
    Action.JOB_TAG: "Only its owner, a lead of its virtual cluster or an administrator may change a job's tags.",
    Action.JOB_PRIORITY: "Only its owner, a lead of its virtual cluster or an administrator may change its priority.",
    Action.JOB_ORDER: "Only its owner, a lead of its virtual cluster or an administrator may move it in the queue.",
    Action.JOB_FILES: "Only its owner, a lead of its virtual cluster, administrators and auditors see a job's files.",
    Action.IDLE_EXTEND: "Only its owner, a lead of its virtual cluster or an administrator may put this off.",
    Action.JOB_SHELL: "Only its owner or an administrator may open a shell in a job.",
}


def job_restrict(*, user: User, action: Action = Action.JOB_READ) -> QuerySet[Job]:
    """The jobs to which the user may do this, newest first."""
    sight = job_sight(user=user, action=action)
    if sight.everything:
        return Job.objects.all()
    return Job.objects.filter(Q(user=sight.own) | Q(vc__in=sight.vcs))


def job_get(*, user: User, job_id: int) -> Job:
    """The job with its user and VC; NotFound when there is none that the user may see."""
    job = job_restrict(user=user).select_related("user", "vc", "code").filter(pk=job_id).first()
    if job is None:
        raise NotFound("job", job_id)
    return job


def job_with_right(*, user: User, job_id: int, action: Action) -> Job:
    """The job, to do ``action`` to it. NotFound when the user may not even see it, Denied when not more than that."""
    job = job_get(user=user, job_id=job_id)
    if not job_sight(user=user, action=action).covers(user_id=job.user_id, vc_id=job.vc_id):
        raise Denied(_REFUSALS[action])
    return job


def task_attempt_with_right(*, user: User, attempt_id: UUID | str, action: Action) -> TaskAttempt:
    """The task attempt, to do ``action`` to its job. NotFound when the user may not even see it, Denied when not more
    than that."""
    attempt = task_attempt_visible(user, attempt_id)
    job = attempt.task.job
    if not job_sight(user=user, action=action).covers(user_id=job.user_id, vc_id=job.vc_id):
        raise Denied(_REFUSALS[action])
    return attempt


def task_attempt_visible(user: User, attempt_id: UUID | str) -> TaskAttempt:
    """The task attempt with its task, job and node; NotFound when there is none that the user may see."""
    try:
        key = UUID(str(attempt_id))
    except ValueError:
        raise NotFound("task attempt", attempt_id) from None
    found = TaskAttempt.objects.filter(pk=key, task__job__in=job_restrict(user=user))
    attempt = found.select_related("task__job", "task__role", "node", "job_attempt").first()
    if attempt is None:
        raise NotFound("task attempt", attempt_id)
    return attempt
