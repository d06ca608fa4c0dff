"""Stops a job on a person's request."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext

from nodes.protocol.states import StopReason
from portal.accounts.audit import audit_write
from portal.accounts.models import Audited, User
from portal.common.errors import Conflict
from portal.job_file.model import JobSpec
from portal.jobs import wordings
from portal.jobs.container import grace_seconds
from portal.jobs.models import Job, Task
from portal.jobs.services.attempts import attempt_end
from portal.jobs.services.outcome import attempt_decide
from portal.jobs.services.transitions import job_hold, job_move, tasks_move
from portal.jobs.states import JOB_OVER, AttemptState, EndReason, JobState, TaskState


def job_stop(*, job: Job, actor: User, now: datetime) -> Job:
    """Stops the job: at once if it waits, else SIGTERM and grace for its containers. Again: no change.

    Raises Conflict when it is already over.
    """
    message = wordings.STOPPED_BY(who=actor.username)
    with transaction.atomic():
        job_hold(job.pk)
        job.refresh_from_db(fields=["state"])
        before = job.state
        attempt = job.attempts.exclude(state=AttemptState.ENDED).select_related("job__user").first()
        if attempt is None:
            _stop_waiting(job, message, actor, now)
            _audit(job, before, actor, now)
            return job
        job_move(job, JobState.STOPPING, now=now, code="stopping", message=message, actor=actor.username)
        attempt_end(
            attempt=attempt, reason=EndReason.STOPPED, message=message, now=now, stop=StopReason.USER,
            grace_s=grace_seconds(JobSpec.from_json(job.spec).berth.grace_period_s),
        )  # fmt: skip
        attempt_decide(attempt=attempt, now=now)
        _audit(job, before, actor, now)
    job.refresh_from_db()
    return job


def _audit(job: Job, before: str, actor: User, now: datetime) -> None:
    """Audits the stop, unless the job was already being stopped."""
    job.refresh_from_db()
    if job.state != before:
        was, told = {"state": before}, {"state": job.state}
        audit_write(
            Audited.JOB_STOP, actor=actor.username, target=job.label, vc=job.vc.name, now=now, before=was, after=told
        )


def _stop_waiting(job: Job, message: str, actor: User, now: datetime) -> None:
    moved = job_move(
        job, JobState.STOPPED, now=now, code="stopped", message=message, actor=actor.username, ended_at=now,
        end_reason=EndReason.STOPPED, end_message=message,
    )  # fmt: skip
    if moved:
        tasks_move(Task.objects.filter(job=job), TaskState.STOPPED)
        return
    job.refresh_from_db()
    if job.state in JOB_OVER:
        raise Conflict(
            gettext("%(job)s is over already: it %(state)s.")
            % {"job": job.label, "state": job.get_state_display().lower()}
        )
