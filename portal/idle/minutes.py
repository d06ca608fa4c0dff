"""Adds a minute's readings to each running attempt's activity."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Exists, OuterRef

from portal.common.bulk import rows_insert, rows_update
from portal.idle.activity import ENOUGH_MS, Activity, GpuMinute, Step, activity_after, minute_of
from portal.idle.models import GpuActivity
from portal.jobs.models import Allocation, TaskAttempt
from portal.jobs.states import AttemptState

STARTS = (GpuMinute(ENOUGH_MS, 100),)
"""The minute of a task that does not run yet or started recently: it counts as work."""
COLUMNS = ("told", "last", "steps")

Told = Mapping[UUID, Sequence[GpuMinute]]
"""What the GPUs of a task attempt reported for a minute."""


def activities_add(*, minute: datetime, told: Told) -> None:
    """Counts a minute for every running attempt, inside the transaction that ingests the minute once. Two queries and
    at most two statements, however many attempts there are."""
    tasks = _tasks(minute, told)
    rows = GpuActivity.objects.filter(pk__in=tasks) if tasks else GpuActivity.objects.none()
    before = {row.pk: activity_of(row) for row in rows}
    at = int(minute.timestamp()) // 60
    after = {key: activity_after(before.get(key), at, minute_of(every)) for key, every in tasks.items()}
    changed = {key: one for key, one in after.items() if one is not None and one != before.get(key)}
    known = [(key, *_columns(one)) for key, one in changed.items() if key in before]
    new = [(key, *_columns(one)) for key, one in changed.items() if key not in before]
    if known:
        rows_update(GpuActivity, COLUMNS, sorted(known), only={})
    if new:
        rows_insert(GpuActivity, ("job_attempt", *COLUMNS), sorted(new))


def _tasks(minute: datetime, told: Told) -> dict[int, list[Sequence[GpuMinute] | None]]:
    """By running attempt: the reports of its tasks that held GPUs for all of this minute."""
    held = Allocation.objects.filter(task_attempt=OuterRef("pk"), released_at__isnull=True)
    rows = TaskAttempt.objects.filter(
        Exists(held), released_at__isnull=True, lost_at__isnull=True, created_at__lte=minute,
        job_attempt__state=AttemptState.RUNNING,
    )  # fmt: skip
    begun = minute - timedelta(minutes=settings.IDLE_START_MINUTES)
    found: dict[int, list[Sequence[GpuMinute] | None]] = defaultdict(list)
    for key, attempt, started in rows.order_by().values_list("pk", "job_attempt", "started_at"):
        starts = started is None or started > begun
        found[attempt].append(STARTS if starts else told.get(key))
    return found


def activity_of(row: GpuActivity) -> Activity:
    """The row's activity."""
    return Activity(row.told, row.last, tuple(Step._make(step) for step in row.steps))


def _columns(one: Activity) -> tuple[Any, ...]:
    return one.told, one.last, [list(step) for step in one.steps]
