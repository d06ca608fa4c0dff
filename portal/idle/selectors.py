"""Queries for the idle policy, exceptions and warnings, and the judgement of all running jobs at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils.translation import gettext

from portal.accounts.models import User
from portal.accounts.rights import Action, allowed_everywhere
from portal.common.errors import Denied, Fault, Invalid, NotFound
from portal.idle.activity import Activity
from portal.idle.minutes import activity_of
from portal.idle.models import TERMS, GpuActivity, IdleExemption, IdlePolicy, IdleWarning
from portal.idle.rules import Exemption, Holder, Terms, Verdict, Warned, exempt, judge
from portal.jobs.models import Job, JobTag
from portal.jobs.selectors.lists import with_sizes
from portal.jobs.selectors.visible import HEAVY, job_restrict
from portal.jobs.states import AttemptState, IdleAction, IdleEnd, JobState
from portal.parking.selectors import parking_in
from portal.teams.models import VirtualCluster
from portal.teams.selectors.visible import may, vc_restrict
from portal.usage.models import UsageProgress


def idle_policy_default() -> IdlePolicy:
    """The policy where none is set: a warning after an hour."""
    return IdlePolicy(
        action=IdleAction.WARN, percent=settings.IDLE_PERCENT or 1, minutes=60, after_minutes=60, extensions=2,
        extension_minutes=60,
    )  # fmt: skip


def idle_policy_told(policy: IdlePolicy) -> dict[str, Any]:
    """A policy as dict, for the audit log and its version."""
    return {name: getattr(policy, name) for name in TERMS}


class IdlePolicies:
    """All policies, read at once. One query."""

    def __init__(self) -> None:
        rows = list(IdlePolicy.objects.filter(vc__removed_at=None).select_related("vc"))
        self.of_cluster = next((row for row in rows if row.vc_id is None), None) or idle_policy_default()
        self.own = {row.vc_id: row for row in rows if row.vc_id is not None}

    def of(self, vc_id: int) -> IdlePolicy:
        """The policy that applies in the virtual cluster."""
        return self.own.get(vc_id, self.of_cluster)


def idle_policy_of(vc_id: int | None) -> IdlePolicy:
    """The policy of one virtual cluster, or (None) of all without their own. One query."""
    rows = {row.vc_id: row for row in IdlePolicy.objects.filter(Q(vc=vc_id) | Q(vc=None)).select_related("vc")}
    return rows.get(vc_id) or rows.get(None) or idle_policy_default()


def idle_terms(policy: IdlePolicy) -> Terms:
    """The policy's terms for ``judge``."""
    source = policy.vc.name if policy.vc else ""
    return Terms(policy.action, policy.percent, policy.minutes, policy.after_minutes, source)


# ---------------------------------------------------------------- the judgement


@dataclass(frozen=True, slots=True)
class Judged:
    """A running job, its verdict and why; ``seen``: id, due time and action time of the warning that the verdict was
    based on."""

    holder: Holder
    attempt: int
    verdict: Verdict | IdleEnd
    terms: Terms
    since: datetime
    seen: tuple[int, datetime | None, datetime | None] | None


@dataclass(frozen=True, slots=True)
class _Known:
    """A running attempt with known minutes. ``parks``: it is parked, or on its way there or back."""

    holder: Holder
    attempt: int
    activity: Activity
    left_alone: bool
    parks: bool


def idle_judged(*, folded_to: datetime, now: datetime) -> list[Judged]:
    """Verdicts on all running jobs with known minutes. Four queries, and one more if an exemption names a tag."""
    policies = IdlePolicies()
    warnings = {row.job_attempt_id: row for row in IdleWarning.objects.filter(ended_at__isnull=True)}
    return [
        _judged(one, idle_terms(policies.of(one.holder.vc)), warnings.get(one.attempt), folded_to, now)
        for one in _known(now)
    ]


def idle_would_warn(*, policy: IdlePolicy, now: datetime) -> list[Job]:
    """Running jobs that would have a warning now under this policy of its virtual cluster, or of the cluster, including
    those that already have one. With user, VC and size; a fixed number of queries."""
    progress = UsageProgress.objects.first()
    if progress is None:
        return []
    others = set() if policy.vc_id else set(IdlePolicies().own)
    terms = idle_terms(policy)
    ids = [
        one.holder.job
        for one in _known(now)
        if (one.holder.vc == policy.vc_id if policy.vc_id else one.holder.vc not in others)
        and _judged(one, terms, None, progress.folded_to, now).verdict is Verdict.WARN
    ]
    return list(with_sizes(Job.objects.filter(pk__in=ids)).order_by("-id")) if ids else []


def _known(now: datetime) -> list[_Known]:
    """Running attempts with known minutes. Two queries, and one more if an exemption names a tag."""
    valid = IdleExemption.objects.filter(Q(until__isnull=True) | Q(until__gt=now))
    exemptions = [Exemption(*row) for row in valid.values_list("vc", "user", "job", "pattern", "tag", "until")]
    rows = GpuActivity.objects.filter(job_attempt__state=AttemptState.RUNNING).order_by("pk")
    columns = ("job_attempt__job", "job_attempt__job__name", "job_attempt__job__user", "job_attempt__job__vc")
    tags = _tags_of_running({one.tag for one in exemptions if one.tag})
    found = []
    rows = rows.annotate(parks=Exists(parking_in(OuterRef("pk"))))
    for attempt, told, last, steps, parks, job, name, user, vc in rows.values_list(
        "pk", "told", "last", "steps", "parks", *columns
    ):
        holder = Holder(job, name, user, vc, tags.get(job, frozenset()))
        activity = activity_of(GpuActivity(told=told, last=last, steps=steps))
        found.append(_Known(holder, attempt, activity, exempt(holder, exemptions, now), parks))
    return found


def _tags_of_running(names: set[str]) -> dict[int, frozenset[str]]:
    """Those of these tags that running jobs have, by job."""
    if not names:
        return {}
    found: dict[int, frozenset[str]] = {}
    rows = JobTag.objects.filter(name__in=names, job__state=JobState.RUNNING).order_by()
    for job, name in rows.values_list("job", "name"):
        found[job] = found.get(job, frozenset()) | {name}
    return found


def _judged(one: _Known, terms: Terms, warning: IdleWarning | None, folded_to: datetime, now: datetime) -> Judged:
    warned = _warned(warning) if warning else None
    verdict = _off_gpu(warned) if one.parks else judge(
        terms=terms, left_alone=one.left_alone, activity=one.activity, warned=warned, folded_to=folded_to, now=now
    )  # fmt: skip
    since = datetime.fromtimestamp(one.activity.below(terms.percent).since * 60, tz=now.tzinfo)
    seen = (warning.pk, warning.due_at, warning.acted_at) if warning else None
    return Judged(one.holder, one.attempt, verdict, terms, since, seen)


def _off_gpu(warned: Warned | None) -> Verdict | IdleEnd:
    """A job that is off its GPU, or on its way, keeps none idle, whatever its readings of before say."""
    return Verdict.NOTHING if warned is None or warned.acted else IdleEnd.PARKED


def _warned(row: IdleWarning) -> Warned:
    terms = Terms(row.action, row.percent, row.minutes, row.after_minutes, row.source)
    return Warned(terms, row.since, row.due_at, row.acted_at is not None)


# ---------------------------------------------------------------- rights


def idle_vcs(*, user: User) -> QuerySet[VirtualCluster]:
    """Virtual clusters whose own policy and exceptions the user may read."""
    return vc_restrict(user=user, action=Action.IDLE_READ)


def idle_exemptions(*, user: User) -> QuerySet[IdleExemption]:
    """Exceptions that the user may read: all; or the cluster-wide ones and those of the user's virtual clusters. Newest
    first."""
    rows = IdleExemption.objects.select_related("vc", "user", "job__user")
    return (
        rows if allowed_everywhere(user, Action.IDLE_READ) else rows.filter(Q(vc=None) | Q(vc__in=idle_vcs(user=user)))
    )


def idle_set_right(*, user: User) -> None:
    """Raises Denied unless the user may set policies."""
    if not allowed_everywhere(user, Action.IDLE_SET):
        raise Denied(gettext("Only an administrator may set what becomes of jobs whose GPUs do nothing."))


def idle_exempt_right(*, user: User, vc: VirtualCluster | None) -> None:
    """Raises Denied unless the user may exempt jobs: of one virtual cluster, or (None) of all."""
    if allowed_everywhere(user, Action.IDLE_EXEMPT):
        return
    if vc is None:
        raise Denied(gettext("Only an administrator may except jobs of all virtual clusters; name one that you lead."))
    if not may(user=user, vc=vc, action=Action.IDLE_EXEMPT):
        raise Denied(gettext("Only a lead of the virtual cluster or an administrator may except its jobs."))


@dataclass(frozen=True, slots=True)
class Exempted:
    """Whom an exception covers."""

    vc: VirtualCluster | None
    user: User | None
    job: Job | None


def idle_exempted(*, user: User, vc: str | None, username: str | None, job_id: int | None) -> Exempted:
    """Resolves the names of an exception, for a user who may add it. Raises Invalid for what does not exist or fit,
    Denied."""
    job = job_restrict(user=user).select_related("user", "vc").filter(pk=job_id).first() if job_id else None
    whom = User.objects.filter(username=username).first() if username else None
    home = VirtualCluster.objects.filter(name=vc).first() if vc else job.vc if job else None
    faults = []
    if job_id and job is None:
        message = gettext("There is no job %(job)s that you may see.") % {"job": job_id}
        faults.append(Fault("job", message, "unknown"))
    if username and whom is None:
        faults.append(Fault("user", gettext("There is no user %(username)s.") % {"username": username}, "unknown"))
    if vc and home is None:
        faults.append(Fault("vc", gettext("There is no virtual cluster %(vc)s.") % {"vc": vc}, "unknown"))
    if job and home and job.vc_id != home.pk:
        message = gettext("%(job)s is in %(vc)s.") % {"job": job.label, "vc": job.vc.name}
        faults.append(Fault("job", message, "unknown"))
    idle_exempt_right(user=user, vc=home)
    if faults:
        raise Invalid(faults)
    return Exempted(home, whom, job)


def idle_exemption_to_remove(*, user: User, exemption_id: int) -> IdleExemption:
    """The exception. NotFound if the user may not even see it, Denied if no more than that."""
    row = idle_exemptions(user=user).filter(pk=exemption_id).first()
    if row is None:
        raise NotFound("exception", exemption_id)
    idle_exempt_right(user=user, vc=row.vc)
    return row


def idle_warnings(*, vcs: QuerySet[VirtualCluster] | None = None) -> QuerySet[IdleWarning]:
    """Open warnings, those that an action follows first; with job, user and VC. Of these virtual clusters, or all."""
    rows = IdleWarning.objects.filter(ended_at__isnull=True, job_attempt__state=AttemptState.RUNNING)
    rows = rows if vcs is None else rows.filter(job_attempt__job__vc__in=vcs)
    job = "job_attempt__job"
    heavy = [f"{job}__{column}" for column in HEAVY]
    return rows.select_related(f"{job}__user", f"{job}__vc").defer(*heavy).order_by(F("due_at").asc(nulls_last=True))


def idle_warning_of(*, job: Job) -> IdleWarning | None:
    """The open warning of a running job."""
    return idle_warnings().filter(job_attempt__job=job).first()


def idle_mark(*, jobs: Iterable[Job]) -> None:
    """Sets ``idle`` on the running ones of these jobs: whether a warning is open. One query; none if none runs."""
    running = [job for job in jobs if job.state == JobState.RUNNING]
    rows = IdleWarning.objects.filter(ended_at__isnull=True, job_attempt__job__in=[job.pk for job in running])
    marked = set(rows.values_list("job_attempt__job", flat=True)) if running else set()
    for job in running:
        job.__dict__["idle"] = job.pk in marked
