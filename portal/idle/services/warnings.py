"""Warns jobs with idle GPUs once, then stops them or makes them opportunistic, as the policy says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Sum
from django.utils.translation import gettext

from nodes.protocol.states import StopReason
from portal.accounts.audit import audit_write
from portal.accounts.models import Audited
from portal.common.errors import Conflict
from portal.common.priorities import OPPORTUNISTIC
from portal.idle import wordings
from portal.idle.models import GpuActivity, IdleWarning
from portal.idle.rules import MINUTE, Verdict
from portal.idle.selectors import Judged, idle_judged, idle_policy_of
from portal.job_file.model import JobSpec
from portal.jobs.container import grace_seconds
from portal.jobs.models import Job, JobAttempt, TaskAttempt
from portal.jobs.services.allocation import job_lend
from portal.jobs.services.attempts import LIVE, attempt_end
from portal.jobs.services.transitions import job_event, job_hold
from portal.jobs.states import AttemptState, EndReason, IdleAction, IdleEnd
from portal.parking.selectors import parking_in
from portal.parking.services.park import job_park, park_refusal
from portal.usage.models import UsageProgress


def idle_judge(*, now: datetime) -> None:
    """Warns, withdraws, stops and makes opportunistic, based on the minutes ingested. Idempotent. A fixed number of
    queries, and a transaction for each job with something to do."""
    over = GpuActivity.objects.exclude(job_attempt__state__in=[AttemptState.STARTING, AttemptState.RUNNING])
    over.delete()
    progress = UsageProgress.objects.first()
    if progress is None:
        return
    for one in idle_judged(folded_to=progress.folded_to, now=now):
        if one.verdict is not Verdict.NOTHING:
            _carry_out(one, now)
    open_still = IdleWarning.objects.filter(ended_at__isnull=True)
    open_still.exclude(job_attempt__state__in=[AttemptState.STARTING, AttemptState.RUNNING]).update(
        ended_at=now, end=IdleEnd.OVER
    )


def _carry_out(one: Judged, now: datetime) -> None:
    """Carries out a verdict with the job locked; skipped if the rows that it was based on have changed."""
    with transaction.atomic():
        job_hold(one.holder.job)
        attempts = JobAttempt.objects.select_related("job__user", "job__vc")
        attempt = attempts.filter(pk=one.attempt, state=AttemptState.RUNNING).first()
        warning = IdleWarning.objects.filter(job_attempt=one.attempt, ended_at__isnull=True).first()
        if attempt is None or (warning and (warning.pk, warning.due_at, warning.acted_at)) != one.seen:
            return
        if isinstance(one.verdict, Verdict) and parking_in(one.attempt).exists():
            return  # somebody has just parked it
        if one.verdict is Verdict.WARN:
            _warn(attempt, one, now)
        elif warning is not None and isinstance(one.verdict, IdleEnd):
            _withdraw(attempt, warning, one.verdict, now)
        elif warning is not None:
            _act(attempt, warning, now)


def _warn(attempt: JobAttempt, one: Judged, now: datetime) -> None:
    live = TaskAttempt.objects.filter(LIVE, job_attempt=attempt, allocations__released_at__isnull=True)
    gpus = live.filter(allocations__isnull=False).values("allocations").distinct().count()
    stays = one.terms.action == IdleAction.OPPORTUNISTIC and _stays(attempt.job)
    unparkable = park_refusal(attempt.job) if one.terms.action == IdleAction.PARK else ""
    follows = None if stays or unparkable else one.terms.follows
    warning = IdleWarning.objects.create(
        job_attempt=attempt, action=one.terms.action, percent=one.terms.percent, minutes=one.terms.minutes,
        after_minutes=one.terms.after_minutes, source=one.terms.source, gpus=gpus, since=one.since, warned_at=now,
        due_at=now + follows if follows else None,
    )  # fmt: skip
    idle = wordings.IDLE(**_numbers(warning, now))
    announced = wordings.NOT_PARKED(why=unparkable) if unparkable else _announced(warning)
    message = wordings.WARNED(idle=idle, follows=announced) if announced else idle
    job_event(job=attempt.job, job_attempt=attempt, code="idle_warned", message=message, now=now)


def _stays(job: Job) -> bool:
    """Whether the job cannot be made opportunistic: it runs on reserved servers, is never preempted, or is
    opportunistic already."""
    spec = JobSpec.from_json(job.spec)
    pinned = any(role.pinned_cell for role in spec.roles)
    return pinned or spec.berth.preemptible is False or job.priority <= OPPORTUNISTIC


def _numbers(warning: IdleWarning, now: datetime) -> dict[str, Any]:
    minutes = max(warning.minutes, int((now - warning.since) / MINUTE))
    return {"number": warning.gpus, "percent": warning.percent, "time": wordings.MINUTES(number=minutes)}


def _announced(warning: IdleWarning) -> str:
    if warning.due_at is None:
        return ""
    follows = wordings.FOLLOWS[IdleAction(warning.action)]
    return follows(number=warning.gpus, time=f"{warning.due_at:%Y-%m-%d %H:%M}")


def _withdraw(attempt: JobAttempt, warning: IdleWarning, end: IdleEnd, now: datetime) -> None:
    IdleWarning.objects.filter(pk=warning.pk).update(ended_at=now, end=end)
    if warning.acted_at is not None:
        message = wordings.STAYS[end]()
    else:
        message = wordings.WITHDRAWN(time=f"{warning.warned_at:%H:%M}", why=wordings.BECAUSE[end]())
    job_event(job=attempt.job, job_attempt=attempt, code="idle_withdrawn", message=message, now=now)


def _act(attempt: JobAttempt, warning: IdleWarning, now: datetime) -> None:
    ACTS[IdleAction(warning.action)](attempt, warning, now)


def _why(warning: IdleWarning, now: datetime) -> str:
    """The cause, as the second half of a sentence."""
    whose = wordings.OF_VC(vc=warning.source) if warning.source else wordings.OF_CLUSTER()
    return wordings.WHY(**_numbers(warning, now), whose=whose, at=f"{warning.warned_at:%H:%M}")


def _stop(attempt: JobAttempt, warning: IdleWarning, now: datetime) -> None:
    IdleWarning.objects.filter(pk=warning.pk).update(acted_at=now, ended_at=now, end=IdleEnd.STOPPED)
    grace = grace_seconds(JobSpec.from_json(attempt.job.spec).berth.grace_period_s)
    attempt_end(
        attempt=attempt, reason=EndReason.IDLE, message=wordings.STOPPED(why=_why(warning, now)), now=now,
        stop=StopReason.USER, grace_s=grace,
    )  # fmt: skip


def _opportunistic(attempt: JobAttempt, warning: IdleWarning, now: datetime) -> None:
    job = attempt.job
    IdleWarning.objects.filter(pk=warning.pk).update(acted_at=now)
    JobAttempt.objects.filter(pk=attempt.pk, own_priority=None).update(own_priority=job.priority)
    Job.objects.filter(pk=job.pk).update(priority=OPPORTUNISTIC)
    job_lend(attempt=attempt, now=now)
    message = wordings.OPPORTUNISTIC(why=_why(warning, now))
    job_event(job=job, job_attempt=attempt, code="idle_opportunistic", message=message, now=now)


def _park(attempt: JobAttempt, warning: IdleWarning, now: datetime) -> None:
    """Parks it; one that cannot be parked any more stays warned."""
    job = attempt.job
    if why := park_refusal(job):
        IdleWarning.objects.filter(pk=warning.pk).update(due_at=None)
        message = wordings.NOT_PARKED(why=why)
        job_event(job=job, job_attempt=attempt, code="idle_not_parked", message=message, now=now)
        return
    IdleWarning.objects.filter(pk=warning.pk).update(acted_at=now, ended_at=now, end=IdleEnd.PARKED)
    GpuActivity.objects.filter(job_attempt=attempt).delete()
    job_park(job=job, actor="", now=now, cause=_why(warning, now))


ACTS: Mapping[IdleAction, Callable[[JobAttempt, IdleWarning, datetime], None]] = {
    IdleAction.STOP: _stop,
    IdleAction.OPPORTUNISTIC: _opportunistic,
    IdleAction.PARK: _park,
}


# ---------------------------------------------------------------- extensions


@dataclass(frozen=True, slots=True)
class Left:
    """Extensions left: how many, and minutes each."""

    times: int
    minutes: int


def idle_left(*, warning: IdleWarning, vc_id: int) -> Left:
    """Extensions left to the warned attempt under the present policy."""
    policy = idle_policy_of(vc_id)
    used = IdleWarning.objects.filter(job_attempt=warning.job_attempt_id).aggregate(all=Sum("extensions"))["all"]
    return Left(max(0, policy.extensions - (used or 0)), policy.extension_minutes)


def idle_extend(*, job: Job, actor: str, now: datetime) -> IdleWarning:
    """Postpones the announced action, as often as the policy allows. Raises Conflict if there is nothing to postpone,
    or no extension left."""
    with transaction.atomic():
        job_hold(job.pk)
        warning = IdleWarning.objects.filter(
            job_attempt__job=job, job_attempt__state=AttemptState.RUNNING, ended_at=None, acted_at=None
        ).exclude(due_at=None).select_related("job_attempt").first()  # fmt: skip
        if warning is None or warning.due_at is None:
            raise Conflict(gettext("Nothing was announced to %(job)s that could be put off.") % {"job": job.label})
        left = idle_left(warning=warning, vc_id=job.vc_id)
        if not left.times:
            raise Conflict(
                gettext(
                    "It was put off as often as the policy allows; a lead of its virtual cluster or an "
                    "administrator can except the job."
                )
            )
        warning.extensions += 1
        warning.due_at = max(warning.due_at, now) + left.minutes * MINUTE
        warning.save(update_fields=["extensions", "due_at"])
        time = wordings.MINUTES(number=left.minutes)
        message = wordings.PUT_OFF(who=actor, time=time, follows=_announced(warning))
        job_event(job=job, job_attempt=warning.job_attempt, code="idle_extended", message=message, now=now, actor=actor)
        after = {"due_at": warning.due_at.isoformat()}
        audit_write(Audited.IDLE_EXTEND, actor=actor, target=job.label, vc=job.vc.name, now=now, after=after)
    return warning
