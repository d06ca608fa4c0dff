"""What a change of the cluster would do to the jobs that run: it is made, looked at, and undone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from django.db import transaction
from django.db.models import Count, Q

from portal.dispatch.snapshot import Loaded, read
from portal.jobs.models import Job
from scheduling import Engine


def demoted_by(*, change: Callable[[], object], now: datetime) -> list[Job]:
    """The jobs that ``change`` would demote, by id, with ``gpus_held``: they run on, borrowed, until their cells are
    wanted back. Raises whatever the change raises; nothing of it stays."""
    with transaction.atomic():
        before = read(now=now)
        change()
        after = read(now=now)
        transaction.set_rollback(True)
    new = _demotions(after, now) - _demotions(before, now)
    rows = Job.objects.filter(pk__in=[after.jobs[job] for job in new]).select_related("user", "vc")
    return list(rows.annotate(gpus_held=_held()).order_by("pk"))


def _held() -> Count:
    live = Q(tasks__attempts__allocations__released_at__isnull=True)
    return Count("tasks__attempts__allocations", filter=live, distinct=True)


def _demotions(loaded: Loaded, now: datetime) -> set[str]:
    plan = Engine.restore(loaded.snapshot).plan(int(now.timestamp() * 1000))
    return {one.job for one in plan.demotions}
