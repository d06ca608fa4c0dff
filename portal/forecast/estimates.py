"""When waiting jobs will start: estimated on a worker by the engine itself, kept, and scored against what happened."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median

from django.db.models import Exists, F, IntegerField, OuterRef, Subquery, Sum
from django.db.models.functions import Coalesce

from portal.forecast.models import StartEstimate
from portal.jobs.models import JobAttempt, TaskRole
from portal.jobs.states import JOB_OVER, AttemptState, EndReason
from portal.queue.outlook import Endless, Score, StartRange, Starts, starts_keep
from portal.scheduler.shares import shares_find
from portal.scheduler.snapshot import SNAPSHOTS
from scheduling.forecast.estimate import Estimate, Spent, outlook
from scheduling.forecast.runtimes import PastRun, RunTimes

PAST_RUNS = 5000
"""So many of the newest runs are compared with."""

SCORED = 2000
"""So many of the newest scored estimates make the score."""

ENDLESS_NAMED = 3
"""So many jobs without a time limit are named to one that waits for them."""

SCORE_KEPT = timedelta(days=30)
SLACK = timedelta(seconds=10)
"""A start so much after its p90 is still a hit: containers take their time to end."""

SAME = timedelta(minutes=1)
"""An estimate that differs from the last one by less, or by less than a tenth of the wait, is the same estimate."""

ENDED_BY_ITSELF = [EndReason.SUCCEEDED, EndReason.FAILED, EndReason.STOPPED, EndReason.TIME_LIMIT]
"""Runs that lasted as long as their user wanted; what the cluster cut short says nothing of run times."""


def starts_estimate(*, now: datetime, seconds: float) -> int:
    """Estimate when the waiting jobs start, within about so many seconds; for how many there is an estimate."""
    loaded = SNAPSHOTS.load(now=now)
    found = outlook(loaded.snapshot, _ms(now), run_times(), spent=time_box(seconds))
    ranges = _ranges(found.estimates, loaded.jobs)
    _store(ranges, now)
    _score(now)
    shares_find(snapshot=loaded.snapshot, now_ms=_ms(now))
    endless = {loaded.jobs[job]: endless_named(those, loaded.jobs) for job, those in found.endless.items()}
    starts_keep(Starts(_ms(now), ranges, scores(), endless))
    return len(ranges)


def time_box(seconds: float) -> Spent:
    """The part of so many seconds from now that is over."""
    begin = time.monotonic()
    return lambda: (time.monotonic() - begin) / seconds


def run_times() -> RunTimes:
    """What runs took that ended by themselves, those of elastic jobs with the GPUs of their gang; one query."""
    roles = TaskRole.objects.filter(job=OuterRef("job")).order_by().values("job")
    gpus = roles.annotate(total=Sum(Coalesce("least", "instances") * F("gpus"))).values("total")
    rows = (
        JobAttempt.objects.filter(
            state=AttemptState.ENDED, end_reason__in=ENDED_BY_ITSELF, started_at__isnull=False, ended_at__isnull=False
        )
        .annotate(gpu_count=Coalesce(Subquery(gpus, output_field=IntegerField()), 0))
        .order_by("-id")
        .values_list("job__vc__name", "job__user__username", "gpu_count", "started_at", "ended_at")
    )
    return RunTimes(
        PastRun(vc, user, gpus, max(0, _ms(ended) - _ms(started)))
        for vc, user, gpus, started, ended in rows[:PAST_RUNS]
        if started is not None and ended is not None
    )


def scores() -> dict[str, Score]:
    """The score of past estimates, by the virtual cluster's name and (empty name) of all; one query."""
    rows = StartEstimate.objects.filter(started_at__isnull=False).order_by("-id")
    by_vc: dict[str, list[tuple[datetime, datetime, datetime]]] = defaultdict(list)
    for vc, p50, p90, started in rows.values_list("job__vc__name", "p50_at", "p90_at", "started_at")[:SCORED]:
        if started is not None:
            by_vc[vc].append((p50, p90, started))
            by_vc[""].append((p50, p90, started))
    return {vc: _scored(found) for vc, found in by_vc.items()}


def _scored(found: list[tuple[datetime, datetime, datetime]]) -> Score:
    hits = sum(started <= p90 + SLACK for _, p90, started in found)
    off = median(abs((started - p50).total_seconds()) for p50, _, started in found)
    return Score(len(found), hits, round(off))


def endless_named(jobs: Sequence[str], rows: Mapping[str, int]) -> Endless:
    """These of the engine's jobs, the first by their rows."""
    return Endless([rows[job] for job in jobs[:ENDLESS_NAMED]], len(jobs))


def _ranges(found: Mapping[str, Estimate], rows: Mapping[str, int]) -> dict[int, StartRange]:
    return {rows[job]: StartRange(one.p50_ms, one.p90_ms) for job, one in found.items()}


def _store(ranges: Mapping[int, StartRange], now: datetime) -> None:
    """Keep each new estimate as a row. One that says the same as the job's last is none; nor is "now"."""
    told = {row.job_id: row for row in StartEstimate.objects.filter(job__in=ranges, started_at=None).order_by("id")}
    fresh = [
        StartEstimate(job_id=job, made_at=now, p50_at=one.p50_at, p90_at=one.p90_at)
        for job, one in ranges.items()
        if one.p50_at - now >= timedelta(seconds=1) and not _same(told.get(job), one, now)
    ]
    StartEstimate.objects.bulk_create(fresh, batch_size=500)


def _same(told: StartEstimate | None, one: StartRange, now: datetime) -> bool:
    if told is None:
        return False
    near = max(SAME, (one.p50_at - now) / 10)
    return abs(told.p50_at - one.p50_at) < near and abs(told.p90_at - one.p90_at) < near


def _score(now: datetime) -> None:
    """Write down when jobs with an estimate started; forget those that never did, and what is old."""
    next_start = JobAttempt.objects.filter(job=OuterRef("job"), created_at__gte=OuterRef("made_at")).order_by("id")
    unscored = StartEstimate.objects.filter(started_at=None)
    unscored.filter(Exists(next_start)).update(started_at=Subquery(next_start.values("created_at")[:1]))
    unscored.filter(job__state__in=JOB_OVER).delete()
    StartEstimate.objects.filter(made_at__lt=now - SCORE_KEPT).delete()


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
