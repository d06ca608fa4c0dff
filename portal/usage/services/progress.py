"""Progress of folding readings and summing up days: each step is taken once, from where the last one ended."""

from __future__ import annotations

from datetime import UTC, date, datetime

from django.db.models import Min

from portal.jobs.models import Allocation
from portal.usage.models import UsageProgress


def usage_progress(*, now: datetime) -> UsageProgress:
    """The progress row; created if missing, so that everything held since the first allocation is summed up."""
    row = UsageProgress.objects.filter(id=1).first()
    if row is not None:
        return row
    first = Allocation.objects.aggregate(first=Min("created_at"))["first"] or now
    minute = now.replace(second=0, microsecond=0)
    start = {"folded_to": minute, "rolled_to": first.astimezone(UTC).date()}
    return UsageProgress.objects.get_or_create(id=1, defaults=start)[0]


def usage_progress_fold(*, old: datetime, new: datetime) -> bool:
    """Marks all before ``new`` as folded; False if somebody else was first."""
    return bool(UsageProgress.objects.filter(id=1, folded_to=old).update(folded_to=new))


def usage_progress_roll(*, old: date, new: date) -> bool:
    """Marks all days before ``new`` as summed up; False if somebody else was first."""
    return bool(UsageProgress.objects.filter(id=1, rolled_to=old).update(rolled_to=new))
