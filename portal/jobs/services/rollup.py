"""Days that are over, summed up: a report over a year reads some rows for each instead of every allocation."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, date, datetime, time, timedelta

from django.db import transaction

from portal.jobs.models import UsageDay
from portal.jobs.selectors.gpu_hours import DAY, usage_of_days
from portal.jobs.services.progress import usage_progress, usage_progress_roll

SETTLED = timedelta(minutes=15)
"""So long after midnight a day is summed up: until then a report or an end of it may still be on its way."""
AT_ONCE = 31
"""Days that one call sums up at most, where many are due."""
BATCH = 2000


def usage_roll(*, now: datetime, at_most: int = AT_ONCE) -> int:
    """Sum up the days that are over, one after the other; how many. Killed at any point, or done by two at once, each
    day is summed up once."""
    for count in range(at_most):
        progress = usage_progress(now=now)
        end = datetime.combine(progress.rolled_to + DAY, time.min, UTC)
        if now < end + SETTLED or progress.folded_to < end or not _roll(progress.rolled_to, now):
            return count
    return at_most


def _roll(day: date, now: datetime) -> bool:
    with transaction.atomic():
        if not usage_progress_roll(old=day, new=day + DAY):
            return False
        _write(day, now)
    return True


def usage_rebuild(*, first: date, last: date, now: datetime) -> int:
    """Sum up again those of these days that are summed up; how many."""
    last = min(last, usage_progress(now=now).rolled_to - DAY)
    for count in range((last - first).days + 1):
        with transaction.atomic():
            _write(first + count * DAY, now)
    return max(0, (last - first).days + 1)


def _write(day: date, now: datetime) -> None:
    sums = usage_of_days(first=day, last=day, now=now)
    UsageDay.objects.filter(day=day).delete()
    rows = (UsageDay(**key._asdict(), **asdict(one)) for key, one in sorted(sums.items()))
    UsageDay.objects.bulk_create(rows, batch_size=BATCH)
