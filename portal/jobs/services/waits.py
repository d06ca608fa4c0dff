"""Why jobs wait, as people are told: stored when it changes, and else once a minute, a part of the jobs at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction

from portal.common.live import announce
from portal.jobs.models import Job
from portal.jobs.services.moves import jobs_announce
from portal.jobs.states import JobState

REASON_REWRITE = timedelta(minutes=1)
MOST_CHANGED = 1000
"""Reasons of another code that one cycle stores; the rest is for the next ones."""

LEAST_STALE = 100
STALE_CYCLES = 30
"""What is older than a minute is stored again in so many cycles, so that many jobs do not come due in one."""

ANNOUNCED_SINGLY = 50
"""Beyond so many changed reasons open pages are told once that the queue moved."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a job waits, as the plan said."""

    job_id: int
    code: str
    message: str
    numbers: dict[str, Any] = field(default_factory=dict)


def waits_due(*, codes: Mapping[int, str], told: Mapping[int, str], now: datetime) -> set[int]:
    """Of the waiting jobs (row id -> code of today's reason) those whose reason is to be stored: first those with
    another code than was told, in their order, then those that were told longest ago. One query."""
    changed = [job for job, code in codes.items() if job in told and told[job] != code]
    share = max(LEAST_STALE, len(codes) // STALE_CYCLES)
    old = Job.objects.filter(state=JobState.WAITING, waiting_written_at__lte=now - REASON_REWRITE)
    stale = old.order_by("waiting_written_at", "pk").values_list("pk", flat=True)[:share]
    return {*changed[:MOST_CHANGED], *(job for job in stale if job in codes)}


def waits_write(*, waits: Iterable[Waiting], now: datetime) -> int:
    """Store these reasons of jobs that wait; of how many a word changed."""
    by_id = {wait.job_id: wait for wait in waits}
    if not by_id:
        return 0
    waiting = Job.objects.filter(pk__in=by_id, state=JobState.WAITING).order_by("pk")
    rows = list(waiting.only("id", "vc_id", "user_id", "waiting_code", "waiting_message"))
    changed = [job for job in rows if _said(job) != (by_id[job.pk].code, by_id[job.pk].message)]
    with transaction.atomic():
        # Row by row in the order of their ids, as whoever holds several jobs does.
        _store([by_id[job.pk] for job in rows], now)
        if len(changed) <= ANNOUNCED_SINGLY:
            jobs_announce(changed)
        if changed:
            transaction.on_commit(lambda: announce("queue", {}))
    return len(changed)


def _said(job: Job) -> tuple[str, str]:
    return job.waiting_code, job.waiting_message


_UPDATE = """UPDATE jobs_job SET waiting_code = %s, waiting_message = %s, waiting_numbers = %s, waiting_written_at = %s
WHERE id = %s AND state = %s"""
"""The ORM's way to give each row its own values costs a hundred times as much, and thousands of jobs may wait."""


def _store(waits: Sequence[Waiting], now: datetime) -> None:
    at = connection.ops.adapt_datetimefield_value(now)
    rows = [
        (wait.code, wait.message, json.dumps(wait.numbers), at, wait.job_id, str(JobState.WAITING)) for wait in waits
    ]
    with connection.cursor() as cursor:
        cursor.executemany(_UPDATE, rows)
