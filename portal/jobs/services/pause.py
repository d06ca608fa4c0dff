"""Pauses and resumes waiting jobs."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext, gettext_noop

from portal.accounts.audit import audit_write
from portal.accounts.models import Audited
from portal.common.errors import Conflict
from portal.common.live import announce
from portal.common.wake import scheduler_wake
from portal.jobs import wordings
from portal.jobs.models import Claim, Job
from portal.jobs.services.transitions import job_event, job_hold
from portal.jobs.states import JobState
from portal.teams.selectors.owners import owners_gone


def job_pause(*, job: Job, actor: str, now: datetime, cause: str = "") -> Job:
    """Pauses the waiting job and drops its claims. Already paused: no change. ``cause``: why, if the portal itself does
    it.

    Raises Conflict when it does not wait.
    """
    message = wordings.PAUSED(why=cause) if cause else wordings.PAUSED_BY(who=actor)
    return _set(job, True, gettext_noop("paused"), message, actor, now)


def job_pause_itself(*, job: Job, cause: str, now: datetime) -> None:
    """Pauses a job that may no longer start; ignores a concurrent stop."""
    try:
        job_pause(job=job, actor="", now=now, cause=cause)
    except Conflict:
        return


def job_resume(*, job: Job, actor: str, now: datetime, lead: bool = False) -> Job:
    """Resumes a paused job, by its old submission time. Not paused: no change. By a ``lead``, a job whose owner may no
    longer run jobs in its team runs for the team from now on. Raises Conflict when it does not wait."""
    keep = lead and not job.kept and bool(owners_gone(owners=[(job.vc_id, job.user_id)]))
    return _set(job, False, gettext_noop("resumed"), wordings.RESUMED(who=actor), actor, now, keep=keep)


def _set(job: Job, paused: bool, code: str, message: str, actor: str, now: datetime, *, keep: bool = False) -> Job:
    with transaction.atomic():
        job_hold(job.pk)
        if not Job.objects.filter(pk=job.pk, state=JobState.WAITING).exists():
            raise Conflict(
                gettext("%(job)s does not wait; only a waiting job can be %(code)s.")
                % {"job": job.label, "code": gettext(code)}
            )
        moved = bool(Job.objects.filter(pk=job.pk, paused=not paused).update(paused=paused))
        if moved and paused:
            Claim.objects.filter(claimant=job).delete()
        if moved:
            job_event(job=job, code=code, message=message, now=now, actor=actor)
        if keep and Job.objects.filter(pk=job.pk, kept=False).update(kept=True):
            moved = True
            job_event(job=job, code="kept", message=wordings.KEPT(vc=job.vc.name, who=actor), now=now, actor=actor)
        if moved:
            what = Audited.JOB_PAUSE if paused else Audited.JOB_RESUME
            audit_write(what, actor=actor, target=job.label, vc=job.vc.name, now=now)
            transaction.on_commit(scheduler_wake)
            transaction.on_commit(lambda: announce("queue", {}))
    job.refresh_from_db(fields=["state", "paused", "kept"])
    return job
