"""Queries of the job pages: counts, and a paged list."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, QuerySet

from portal.accounts.models import User
from portal.common.pagination import Behind, Order
from portal.idle.selectors import idle_mark
from portal.jobs.models import Job
from portal.jobs.selectors.lists import jobs_sized, jobs_tagged
from portal.jobs.selectors.visible import job_restrict
from portal.jobs.states import JOB_LIVE, JOB_OVER, JobState
from portal.parking.selectors import park_mark
from portal.teams.models import VirtualCluster

PAGE = 50


ORDERS = {
    "": Order("submitted_at", descending=True),
    "oldest": Order("submitted_at", descending=False),
    "name": Order("name", descending=False),
    "priority": Order("priority", descending=True),
}
"""Orders of the list: by columns that have an index."""
USERS_NAMED = 50


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Filters of the job list; empty ones do not filter. ``mine``: the reader, if only their own are wanted; ``user``:
    a user's name, or part of several; ``before``: only jobs after this one in the order."""

    states: Collection[str] = ()
    priorities: Collection[int] = ()
    vc: str = ""
    mine: User | None = None
    user: str = ""
    text: str = ""
    tag: str = ""
    since: datetime | None = None
    until: datetime | None = None
    order: Order = ORDERS[""]
    before: int | None = None


@dataclass(frozen=True, slots=True)
class JobsPage:
    """A page of jobs in the list's order; ``older`` is the id after which the next page begins."""

    jobs: list[Job]
    older: int | None

    @property
    def live(self) -> bool:
        """Whether any of them may still change."""
        return any(job.state in JOB_LIVE for job in self.jobs)


def jobs_found(*, user: User, only: JobFilter, limit: int = PAGE) -> JobsPage:
    """Jobs that the user may see and that pass the filter, with their tags, in its order."""
    rows = _filtered(job_restrict(user=user), only)
    if only.before is not None:
        rows = _behind(rows, only.order, job_restrict(user=user).filter(pk=only.before))
    sign = "-" if only.order.descending else ""
    ids = rows.order_by(f"{sign}{only.order.column}", f"{sign}id").values_list("pk", flat=True)[: limit + 1]
    jobs = jobs_sized(ids=list(ids), tags=True)
    idle_mark(jobs=jobs)
    park_mark(jobs=jobs)
    return JobsPage(jobs[:limit], jobs[limit - 1].pk if len(jobs) > limit else None)


def _filtered(jobs: QuerySet[Job], only: JobFilter) -> QuerySet[Job]:
    """Applies the filter; names are resolved first, so that the database uses their indexes."""
    chosen: dict[str, Any] = {
        "state__in": only.states, "priority__in": only.priorities, "user": only.mine,
        "submitted_at__gte": only.since, "submitted_at__lt": only.until,
    }  # fmt: skip
    jobs = jobs.filter(**{name: value for name, value in chosen.items() if value})
    if only.vc:
        jobs = jobs.filter(vc=VirtualCluster.objects.filter(name=only.vc).values("pk")[:1])
    if only.tag:
        jobs = jobs_tagged(jobs, only.tag)
    if only.user:
        jobs = jobs.filter(user__in=_users(only.user))
    return jobs.filter(name__icontains=only.text) if only.text else jobs


def _users(name: str) -> list[int]:
    """The user of that name, else those whose names contain it."""
    whole = User.objects.filter(username=name).values_list("pk", flat=True)
    parts = User.objects.filter(username__icontains=name).order_by("username").values_list("pk", flat=True)
    return list(whole) or list(parts[:USERS_NAMED])


def _behind(jobs: QuerySet[Job], order: Order, job: QuerySet[Job]) -> QuerySet[Job]:
    """Jobs after this one in the order; all if it is gone or invisible to the reader."""
    row = job.only(order.column).first()
    if row is None:
        return jobs
    field: Any = Job._meta.get_field(order.column)
    return jobs.filter(Behind(Job, order, {order.column: field.value_to_string(row), "id": str(row.pk)}))


def job_counts(*, user: User, since: datetime) -> dict[str, int]:
    """The user's own jobs counted by state; every state is present. Finished ones only if submitted since then:
    counting all would get ever slower."""
    mine = Job.objects.filter(user=user).order_by().values_list("state").annotate(number=Count("pk"))
    live, over = mine.filter(state__in=JOB_LIVE), mine.filter(state__in=JOB_OVER, submitted_at__gte=since)
    return {str(state): 0 for state in JobState} | dict(live) | dict(over)
