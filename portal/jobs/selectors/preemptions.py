"""Who took whose GPUs back, when, and by when they must be free."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from django.db.models import Exists, OuterRef, QuerySet

from nodes.protocol import Phase
from portal.jobs.models import Preemption, TaskAttempt

_RELATED = ("preemptor__user", "preemptor__vc", "victim__job__user", "victim__job__vc")


def preemptions_open(*, jobs: Iterable[int]) -> dict[int, list[Preemption]]:
    """By preemptor: the preemptions whose victims still hold something. One query."""
    leaving = TaskAttempt.objects.filter(job_attempt=OuterRef("victim"), released_at__isnull=True, phase=Phase.STOP)
    rows = _preemptions().filter(Exists(leaving), preemptor__in=list(jobs))
    found: dict[int, list[Preemption]] = defaultdict(list)
    for row in rows:
        if row.preemptor_id is not None:
            found[row.preemptor_id].append(row)
    return dict(found)


def _preemptions() -> QuerySet[Preemption]:
    return Preemption.objects.select_related(*_RELATED).order_by("id")
