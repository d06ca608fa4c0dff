"""Sums up past days, so that a report over a year reads a few rows for each instead of every allocation."""

from __future__ import annotations

import logging
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta

from django.conf import settings
from django.db import transaction

from portal.usage.models import UsageDay
from portal.usage.selectors.gpu_hours import DAY, usage_of_days
from portal.usage.selectors.open_days import usage_open_keep
from portal.usage.services.progress import usage_progress, usage_progress_roll

SETTLED = timedelta(minutes=15)
"""How long after midnight a day is summed up: late reports and ends may still arrive until then."""
AT_ONCE = 31
"""Maximum days that one call sums up."""
STRETCH = 7
"""Days per transaction: each scans all allocations."""
BATCH = 2000

log = logging.getLogger(__name__)


def usage_roll(*, now: datetime, at_most: int = AT_ONCE) -> int:
    """Sums up past days in order; returns how many. Killed at any point or run concurrently, it sums up each day
    once."""
    _take_back(now)
    done = 0
    while done < at_most:
        progress = usage_progress(now=now)
        over = min(now - SETTLED, progress.folded_to).astimezone(UTC).date()
        days = min((over - progress.rolled_to).days, STRETCH, at_most - done)
        if days <= 0 or not _roll(progress.rolled_to, days, now):
            return done
        done += days
    return done


def _take_back(now: datetime) -> None:
    """Reopens days that are not over but were summed up by a clock that was ahead."""
    today, rolled_to = now.astimezone(UTC).date(), usage_progress(now=now).rolled_to
    with transaction.atomic():
        if rolled_to > today and usage_progress_roll(old=rolled_to, new=today):
            UsageDay.objects.filter(day__gte=today).delete()
            log.warning("days up to %s were summed up by a clock that was ahead; %s is not over", rolled_to, today)


def _roll(day: date, days: int, now: datetime) -> bool:
    with transaction.atomic():
        if not usage_progress_roll(old=day, new=day + days * DAY):
            return False
        _write(day, days, now)
    return True


def usage_open_days_keep(*, now: datetime) -> None:
    """Computes the open days for all readers of the next minute; does nothing if reports are not to be kept, or many
    days are due."""
    today, first = now.astimezone(UTC).date(), usage_progress(now=now).rolled_to
    if settings.USAGE_KEPT_S and today - first < STRETCH * DAY:
        usage_open_keep(first=first, last=today, now=now)


def usage_rebuild(*, first: date, last: date, now: datetime) -> int:
    """Recomputes those of these days that are summed up; returns how many."""
    count = (min(last, usage_progress(now=now).rolled_to - DAY) - first).days + 1
    for done in range(0, count, STRETCH):
        with transaction.atomic():
            _write(first + done * DAY, min(STRETCH, count - done), now)
    return max(0, count)


def _write(first: date, days: int, now: datetime) -> None:
    last = first + (days - 1) * DAY
    sums = usage_of_days(first=first, last=last, now=now)
    UsageDay.objects.filter(day__range=(first, last)).delete()
    rows = (UsageDay(**key._asdict(), **asdict(one)) for key, one in sorted(sums.items()))
    UsageDay.objects.bulk_create(rows, batch_size=BATCH)
