"""Jobs as lists: whose, in which order, and what waits."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import F, IntegerField, OuterRef, QuerySet, Subquery, Sum, Window
from django.db.models.functions import Coalesce, RowNumber

from portal.accounts.models import User
from portal.common.errors import NotFound
from portal.jobs.models import Job, TaskRole
from portal.jobs.selectors.visible import job_restrict
from portal.jobs.states import JobState

HEAVY = ("spec", "config", "secrets_sealed")


def _of_roles(per_role: F | object) -> Coalesce:
    rows = TaskRole.objects.filter(job=OuterRef("pk")).order_by().values("job").annotate(total=Sum(per_role))
    return Coalesce(Subquery(rows.values("total"), output_field=IntegerField()), 0)


def with_sizes(jobs: QuerySet[Job]) -> QuerySet[Job]:
    """The jobs for lists: user and VC loaded, ``gpu_count`` and ``task_count`` added, the job files left behind."""
    counted = jobs.annotate(task_count=_of_roles(F("instances")), gpu_count=_of_roles(F("instances") * F("gpus")))
    return counted.select_related("user", "vc").defer(*HEAVY)


def jobs_listed(*, user: User) -> QuerySet[Job]:
    """The jobs that the user may see, newest first."""
    return with_sizes(job_restrict(user=user))


def job_listed(*, user: User, job_id: int) -> Job:
    """One job as lists have it; NotFound when there is none that the user may see."""
    job = jobs_listed(user=user).filter(pk=job_id).first()
    if job is None:
        raise NotFound("job", job_id)
    return job


# 1. the higher priority; 2. the earlier submission; 3. the smaller id.
_ORDER = (F("priority").desc(), "submitted_at", "id")
_PLACE = Window(RowNumber(), partition_by=F("vc"), order_by=_ORDER)


def queue_listed() -> QuerySet[Job]:
    """Every waiting job in the order of the queue, with its ``place`` in its VC, from 1; whom its name may be shown
    to says ``job_sight``."""
    waiting = Job.objects.filter(state=JobState.WAITING).annotate(place=_PLACE)
    return with_sizes(waiting.order_by(*_ORDER))


def queue_places(*, jobs: Sequence[Job]) -> dict[int, int]:
    """The places, within their VCs, of those of the jobs that wait; one query."""
    vcs = {job.vc_id for job in jobs if job.state == JobState.WAITING}
    if not vcs:
        return {}
    wanted = {job.pk for job in jobs}
    waiting = Job.objects.filter(state=JobState.WAITING, vc__in=vcs).order_by()
    rows = waiting.annotate(place=_PLACE).values_list("pk", "place")
    return {key: place for key, place in rows if key in wanted}
