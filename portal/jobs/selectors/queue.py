"""What waits, in the order of the last plan, with its place and when it may start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from portal.jobs.models import Job
from portal.jobs.outlook import Score, StartRange, queue_read, starts_read
from portal.jobs.selectors.lists import with_sizes
from portal.jobs.states import JobState


@dataclass(frozen=True, slots=True)
class Queued:
    """A waiting job. ``place``: in the order of its virtual cluster, None where the last plan gives it none."""

    job: Job
    place: int | None
    start: StartRange | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """When one waiting job will start, and how good such estimates have been: in its virtual cluster, where enough
    are scored there, else in all."""

    start: StartRange | None
    score: Score | None


def queue_waiting() -> QuerySet[Job]:
    """Every waiting job; whom its name may be shown to says ``job_sight``."""
    return Job.objects.filter(state=JobState.WAITING)


def queue_ordered(jobs: QuerySet[Job]) -> list[int]:
    """The ids of these waiting jobs as the last plan takes them; those it has not seen come last, oldest first."""
    places, waiting = queue_read(), set(jobs.order_by().values_list("pk", flat=True))
    return [*(job for job in places if job in waiting), *sorted(waiting - places.keys())]


def queue_rows(*, ids: Sequence[int]) -> list[Queued]:
    """The jobs of these ids, in this order; two queries and two readings of what the scheduler left."""
    places, ranges = queue_read(), starts_read().ranges
    rows = {job.pk: job for job in with_sizes(Job.objects.filter(pk__in=ids))}
    return [Queued(rows[one], places.get(one), ranges.get(one)) for one in ids if one in rows]


def queue_places(*, jobs: Sequence[Job]) -> dict[int, int]:
    """The places, within their virtual clusters, of those of the jobs that wait and have one."""
    waiting = [job.pk for job in jobs if job.state == JobState.WAITING]
    places = queue_read() if waiting else {}
    return {job: place for job in waiting if (place := places.get(job))}


SCORED = 20
"""So many scored estimates say something."""


def job_forecast(*, job: Job) -> Forecast | None:
    """When the job will start; None when it does not wait. Needs the job's VC loaded."""
    return forecast(job_id=job.pk, vc=job.vc.name) if job.state == JobState.WAITING else None


def forecast(*, job_id: int, vc: str) -> Forecast:
    """The last estimate for a job of that virtual cluster, if there is one, and the score of past ones."""
    starts = starts_read()
    scores = [starts.scores[name] for name in (vc, "") if name in starts.scores]
    return Forecast(starts.ranges.get(job_id), next((score for score in scores if score.count >= SCORED), None))
