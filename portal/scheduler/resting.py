"""Loans ended within the last hour, and GPUs in use a moment ago: from rows alone. Anything dated in the future was
dated by a clock since corrected, and is ignored."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db.models import Count, Max, QuerySet

import scheduling
from portal.common.prepared import Prepared, Slot
from portal.hardware.silences import AHEAD
from portal.jobs.models import Allocation, Preemption
from portal.scheduler.dependencies import job_key
from scheduling.model.job import REST_FURTHEST_MS

REMEMBERED = timedelta(hours=1)
"""How long an ended loan counts."""


def loans_lost(*, now: datetime) -> dict[str, int]:
    """How often each job (engine id) was ended on loan in the last hour. One query."""
    return {job_key(job): count for job, count in _LOST(since=now - REMEMBERED, until=now + AHEAD)}


def _lost() -> QuerySet[Preemption, tuple[int, int]]:
    lost = Preemption.objects.filter(on_loan=True, at__gt=Slot("since", datetime), at__lte=Slot("until", datetime))
    return lost.order_by().values_list("victim__job").annotate(Count("pk"))


_LOST = Prepared(_lost)


def leaves_freed(*, now: datetime, leaf_ids: Mapping[int, str]) -> tuple[scheduling.Freed, ...]:
    """When recently used GPUs were released. One query."""
    since = now - timedelta(milliseconds=REST_FURTHEST_MS)
    freed = Allocation.objects.filter(released_at__range=(since, now + AHEAD)).order_by("leaf")
    found = freed.values_list("leaf").annotate(at=Max("released_at"))
    return tuple(scheduling.Freed(leaf_ids[leaf], int(at.timestamp() * 1000)) for leaf, at in found if leaf in leaf_ids)
