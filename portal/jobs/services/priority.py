"""A job gets another priority class."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext

from portal.accounts.audit import audit_write
from portal.accounts.models import Audited, User
from portal.common.errors import Conflict
from portal.common.live import announce
from portal.common.priorities import PRIORITY_CLASSES, PriorityClass, priority_name
from portal.common.wake import scheduler_wake
from portal.job_file.model import JobSpec
from portal.job_file.problems import SpecInvalid
from portal.job_file.rewrite import PRIORITY_CLASS, with_value
from portal.jobs.models import Claim, Job
from portal.jobs.selectors.hidden import hidden_in
from portal.jobs.services.admission import job_check
from portal.jobs.services.rights import class_problems
from portal.jobs.services.transitions import job_event, job_hold
from portal.jobs.states import CLASS_CHANGES, JobState


def job_change_priority(*, job: Job, to: PriorityClass, actor: User, now: datetime) -> Job:
    """Let the job wait, or run, under another class, behind those of that class that were submitted earlier. It has
    that class already: no change.

    ``actor`` must be allowed to give that class. Of a job that was opportunistic, or becomes so, the whole file
    is judged as if its owner, who may have left the team since, submitted it now. Raises SpecInvalid with every
    problem, Conflict when the job is over or being stopped, or was changed at the same moment; also when it runs and
    would become opportunistic or be so no more, for it holds what it runs on under the rules of the one or the other.
    """
    old, new = job.priority, PRIORITY_CLASSES[to]
    if old == new:
        return job
    text = with_value(job.config, PRIORITY_CLASS, to)
    spec = replace(JobSpec.from_json(job.spec), priority=new, priority_class=to)
    if min(old, new) < 0:
        job_check(user=job.user, text=text, by=actor, already_in=job.vc, hidden=hidden_in(job))
    elif problems := list(class_problems(spec=spec, by=actor)):
        raise SpecInvalid(problems)
    with transaction.atomic():
        job_hold(job.pk)
        _check_may(Job.objects.only("state", "priority", "vc", "name", "run", "user").get(pk=job.pk), job, new)
        Job.objects.filter(pk=job.pk).update(
            priority=new, spec=spec.to_json(), config=text, queue_ms=None, led=False,
        )  # fmt: skip
        if min(old, new) < 0:
            Claim.objects.filter(claimant=job).delete()  # of cells that it has no right to any more
        message = f"Its priority was changed from {priority_name(old)} to {priority_name(new)} by {actor.username}."
        job_event(job=job, code="priority", message=message, now=now, actor=actor.username)
        audit_write(
            Audited.JOB_PRIORITY, actor=actor.username, target=job.label, vc=job.vc.name, now=now,
            before={"priority": old}, after={"priority": new},
        )  # fmt: skip
        transaction.on_commit(scheduler_wake)
        transaction.on_commit(lambda: announce("queue", {}))
    job.refresh_from_db()
    return job


def _check_may(row: Job, read: Job, new: int) -> None:
    """Raises Conflict unless the row is as the change was made from, and in a state that allows it."""
    old = read.priority
    if (row.priority, row.vc_id) != (old, read.vc_id):
        raise Conflict(
            gettext("%(job)s has another priority or virtual cluster by now. Look again.") % {"job": row.label}
        )
    if row.state not in CLASS_CHANGES:
        raise Conflict(
            gettext("%(job)s %(state)s already; its priority does not matter any more.")
            % {"job": row.label, "state": row.get_state_display().lower()}
        )
    if row.state != JobState.WAITING and min(old, new) < 0:
        raise Conflict(
            gettext(
                "%(job)s runs: only while it waits can it become opportunistic, or be so no more. Stop"
                " it and submit it again in the other class."
            )
            % {"job": row.label}
        )
