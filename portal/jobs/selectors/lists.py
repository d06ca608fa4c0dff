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


def _queue() -> QuerySet[Job]:
    """Waiting jobs in the order of the queue. A job's ``place`` counts from 1 within its VC.

    1. the higher priority;
    2. the earlier submission;
    3. the smaller id.
    """
    order = (F("priority").desc(), "submitted_at", "id")
    place = Window(RowNumber(), partition_by=F("vc"), order_by=order)
    return Job.objects.filter(state=JobState.WAITING).annotate(place=place).order_by(*order)


def queue_listed() -> QuerySet[Job]:
    """Every waiting job in order, with its place; whom its name may be shown to says ``job_sight``."""
    return with_sizes(_queue())


def queue_places(*, jobs: Sequence[Job]) -> dict[int, int]:
    """The places, within their VCs, of those of the jobs that wait; one query."""
    vcs = {job.vc_id for job in jobs if job.state == JobState.WAITING}
    if not vcs:
        return {}
    wanted = {job.pk for job in jobs}
    rows = _queue().filter(vc__in=vcs).order_by().values_list("pk", "place")
    return {key: place for key, place in rows if key in wanted}
