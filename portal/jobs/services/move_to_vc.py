"""Moves a waiting job to another virtual cluster."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext

from portal.accounts.audit import audit_write
from portal.accounts.models import Audited
from portal.common.errors import Conflict
from portal.common.live import announce
from portal.common.wake import scheduler_wake
from portal.job_file.rewrite import VC, with_value
from portal.jobs import wordings
from portal.jobs.models import Allocation, Claim, Job
from portal.jobs.selectors.hidden import hidden_in
from portal.jobs.services.admission import job_check
from portal.jobs.services.transitions import job_event, job_hold
from portal.jobs.states import JobState
from portal.teams.models import VirtualCluster


def job_change_vc(*, job: Job, vc: str, actor: str, now: datetime) -> Job:
    """Moves the waiting job to another virtual cluster, keeping its submission time. Already there: no change.

    Its file is checked as if its owner submitted it there now. Raises SpecInvalid with every problem, Conflict when the
    job does not wait.
    """
    if job.vc.name == vc:
        return job
    text = with_value(job.config, VC, vc)
    spec = job_check(user=job.user, text=text, hidden=hidden_in(job))
    with transaction.atomic():
        job_hold(job.pk)
        target = _check_present(spec.vc)
        moved = Job.objects.filter(
            pk=job.pk, state=JobState.WAITING, vc=job.vc_id, priority=job.priority
        ).update(
            vc=target, queue_ms=None, led=False, kept=False, spec={**job.spec, "vc": spec.vc}, config=text,
            waiting_code="", waiting_message="", waiting_numbers={}, waiting_written_at=None,
        )  # fmt: skip
        if not moved:
            raise Conflict(
                gettext(
                    "%(job)s does not wait any more, or was changed at the same moment; only a waiting job"
                    " can change its virtual cluster. Look again."
                )
                % {"job": job.label}
            )
        _check_present(spec.vc)  # may have been removed meanwhile
        # Its claims lie in cells of the team that it leaves.
        Claim.objects.filter(claimant=job).delete()
        # Holdings of a given-up attempt now count for the new team: rewrite the rows, since readers cache what they
        # derived from them until they change.
        Allocation.objects.filter(task_attempt__job_attempt__job=job, released_at=None).update(since=F("since"))
        message = wordings.MOVED(vc=job.vc.name, other=spec.vc, who=actor)
        job_event(job=job, code="moved", message=message, now=now, actor=actor)
        audit_write(
            Audited.JOB_MOVE, actor=actor, target=job.label, vc=spec.vc, now=now,
            before={"vc": job.vc.name}, after={"vc": spec.vc},
        )  # fmt: skip
        transaction.on_commit(scheduler_wake)
        transaction.on_commit(lambda: announce("queue", {}))
    job.refresh_from_db()
    return job


def _check_present(name: str) -> VirtualCluster:
    """The virtual cluster. Raises Conflict if it is gone by now."""
    vc = VirtualCluster.objects.filter(name=name).first()
    if vc is None:
        raise Conflict(gettext("There is no virtual cluster %(name)s any more.") % {"name": name})
    return vc
