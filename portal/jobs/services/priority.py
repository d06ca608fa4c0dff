"""Changes a job's priority class."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext

from portal.accounts.audit import audit_write
from portal.accounts.models import Audited, User
from portal.common.errors import Conflict
from portal.common.live import announce
from portal.common.priorities import PRIORITY_CLASSES, PriorityClass
from portal.common.wake import scheduler_wake
from portal.job_file.model import JobSpec
from portal.job_file.problems import SpecInvalid
from portal.job_file.rewrite import PRIORITY_CLASS, with_value
from portal.jobs import wordings
from portal.jobs.models import Claim, Job
from portal.jobs.selectors.hidden import hidden_in
from portal.jobs.services.admission import job_check
from portal.jobs.services.rights import class_problems
from portal.jobs.services.transitions import job_event, job_hold
from portal.jobs.states import CLASS_CHANGES, JobState
from portal.jobs.wordings import class_said


def job_change_priority(*, job: Job, to: PriorityClass, actor: User, now: datetime) -> Job:
    """Changes the class of a waiting or running job; in the new one it queues by submission time. Same class: no
    change.

    ``actor`` must be allowed to give that class. If the job was or becomes opportunistic, the whole file is checked as
    if its owner, who may have left the team, submitted it now. Raises SpecInvalid with every problem; Conflict when the
    job is over, being stopped or changed at the same moment, and when it runs and would become opportunistic or cease
    to be: it holds its GPUs under the rules of one or the other.
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
        Job.objects.filter(pk=job.pk).update(priority=new, spec=spec.to_json(), config=text, queue_ms=None, led=False)
        if min(old, new) < 0:
            Claim.objects.filter(claimant=job).delete()  # it no longer has a right to those cells
        message = wordings.PRIORITY(before=class_said(old), after=class_said(new), who=actor.username)
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
    """Raises Conflict unless the row is unchanged since it was read, and in a state that allows the change."""
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
