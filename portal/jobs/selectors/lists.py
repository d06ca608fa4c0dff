"""Lists of jobs, restricted and ordered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, cast

from django.db.models import F, IntegerField, OuterRef, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from portal.accounts.models import User
from portal.common.errors import NotFound
from portal.common.prepared import Among, Prepared, Slot
from portal.jobs.models import Job, JobTag, SavedView, TaskRole
from portal.jobs.selectors.visible import HEAVY, job_restrict, with_times
from portal.teams.selectors.visible import job_sight


def _of_roles(per_role: F | object) -> Coalesce:
    rows = TaskRole.objects.filter(job=OuterRef("pk")).order_by().values("job").annotate(total=Sum(per_role))
    return Coalesce(Subquery(rows.values("total"), output_field=IntegerField()), 0)


def with_sizes(jobs: QuerySet[Job]) -> QuerySet[Job]:
    """Jobs for lists: user and VC loaded by name only, with ``gpu_count``, ``task_count`` and what ``with_times`` adds,
    without the job files."""
    counted = with_times(jobs).annotate(
        task_count=_of_roles(F("instances")),
        gpu_count=_of_roles(F("instances") * F("gpus")),
    )
    return counted.select_related("user", "vc").defer(*HEAVY, *_all_but("user", "username"), *_all_but("vc", "name"))


def _all_but(relation: str, name: str) -> list[str]:
    """The related row's columns except its key and this one: a list has hundreds of rows."""
    columns = cast(Any, Job._meta.get_field(relation)).related_model._meta.concrete_fields
    return [f"{relation}__{one.name}" for one in columns if not one.primary_key and one.name != name]


def jobs_listed(*, user: User) -> QuerySet[Job]:
    """The jobs that the user may see, newest first."""
    return with_sizes(job_restrict(user=user))


def jobs_tagged(jobs: QuerySet[Job], tag: str) -> QuerySet[Job]:
    """Those of the jobs that have the tag. As a subquery, so that the database chooses whether to start from the tag or
    from the list."""
    return jobs.filter(pk__in=JobTag.objects.filter(name=tag).order_by().values("job"))


def saved_views(*, user: User) -> QuerySet[SavedView]:
    """The user's saved views of the job list, by name."""
    return SavedView.objects.filter(user=user).order_by("name")


_SIZED = Prepared(lambda: with_sizes(Job.objects.filter(Among("id", "jobs"))).order_by())


_TAGS = Prepared(lambda: JobTag.objects.filter(Among("job", "jobs")).order_by("id"))


def jobs_sized(*, ids: Sequence[int], tags: bool = False) -> list[Job]:
    """Jobs with these ids as lists show them, in this order; unrestricted, see ``job_restrict``. One query, and one for
    their tags."""
    rows = {job.pk: job for job in _SIZED(jobs=ids)}
    if tags:
        _with_tags(list(rows.values()))
    return [rows[one] for one in ids if one in rows]


def _with_tags(jobs: Sequence[Job]) -> None:
    """Prefetches each job's tags, oldest first."""
    found: dict[int, list[JobTag]] = defaultdict(list)
    for tag in _TAGS(jobs=[job.pk for job in jobs]):
        found[tag.job_id].append(tag)
    for job in jobs:
        job.__dict__["_prefetched_objects_cache"] = {"tags": found[job.pk]}


_DETAILED = Prepared(
    lambda: with_sizes(Job.objects.filter(pk=Slot("job", int))).select_related("user", "vc", "code").order_by()
)


def job_listed(*, user: User, job_id: int) -> Job:
    """One job as lists show it; NotFound if there is none that the user may see."""
    job = _DETAILED.first(job=job_id)
    if job is None or not job_sight(user=user).covers(user_id=job.user_id, vc_id=job.vc_id):
        raise NotFound("job", job_id)
    _with_tags([job])
    return job
