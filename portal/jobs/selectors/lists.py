"""Jobs as lists: whose, in which order."""

from __future__ import annotations

from django.db.models import F, IntegerField, OuterRef, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from portal.accounts.models import User
from portal.common.errors import NotFound
from portal.jobs.models import Job, JobTag, SavedView, TaskRole
from portal.jobs.selectors.visible import job_restrict

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


def jobs_tagged(jobs: QuerySet[Job], tag: str) -> QuerySet[Job]:
    """Those of the jobs that have the tag. The database chooses whether it goes through the jobs that have it, or looks
    at each job of the list."""
    return jobs.filter(pk__in=JobTag.objects.filter(name=tag).order_by().values("job"))


def saved_views(*, user: User) -> QuerySet[SavedView]:
    """The user's views of the list of jobs, by name."""
    return SavedView.objects.filter(user=user).order_by("name")


def job_listed(*, user: User, job_id: int) -> Job:
    """One job as lists have it; NotFound when there is none that the user may see."""
    job = jobs_listed(user=user).filter(pk=job_id).first()
    if job is None:
        raise NotFound("job", job_id)
    return job
