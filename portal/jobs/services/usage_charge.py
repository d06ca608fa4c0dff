"""Charges what guaranteed tasks took, hour by hour: the usage that fair share between users is based on."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db.models import F

import scheduling
from portal.common.bulk import rows_add
from portal.jobs.models import Allocation, TaskAttempt, Usage, UsageMark
from portal.jobs.selectors.usage import past_days
from scheduling import LeafUse, Standing, TaskPlacement, TaskRef
from scheduling.queue.usage_history import HOUR_MS, amounts_of, hourly


def usage_charge(*, rows: Collection[TaskAttempt], until: datetime, back: bool = False) -> None:
    """Charges what these task attempts have taken by their present right up to ``until``; inside the transaction that
    ends it. They need job attempt and job loaded. Parked ones were charged when they left their GPUs. A fixed number of
    queries. The scheduler's own rule says what counts. ``back``: subtracts it again."""
    held: dict[UUID, list[_Held]] = defaultdict(list)
    live = Allocation.objects.filter(task_attempt__in=[row.pk for row in rows], released_at__isnull=True).order_by()
    columns = ("task_attempt", "leaf__cell_type__name", "virtual_cell", "standing", "since")
    for key, *columns_of in live.values_list(*columns):
        held[key].append(_Held(*columns_of))
    taken: Counter[_Key] = Counter()
    for row in rows:
        if row.parked_at is not None:
            continue
        job = row.job_attempt.job
        for one in _taken(row, held[row.pk], until):
            taken[_Key(job.vc_id, job.user_id, one.resource, one.hour_ms // HOUR_MS)] += (
                -one.amount if back else one.amount
            )
    if taken:
        _add(taken)
        _mark(min(key.hour for key in taken), until)


class _Held(NamedTuple):
    """A GPU of a task attempt."""

    leaf_type: str
    virtual_cell: str
    standing: str
    since: datetime


class _Key(NamedTuple):
    """The account and hour of an amount."""

    vc_id: int
    user_id: int
    resource: str
    hour: int


def _taken(row: TaskAttempt, held: Sequence[_Held], until: datetime) -> Iterable[scheduling.Usage]:
    leaves = {str(number): one.leaf_type for number, one in enumerate(held)}
    uses = [LeafUse(str(number), one.virtual_cell or None, Standing(one.standing)) for number, one in enumerate(held)]
    amounts = amounts_of(TaskPlacement(TaskRef("", 0), "", tuple(uses), row.cpu_milli, row.memory_mb), leaves)
    # Not before its placement: the node's clock may be wrong.
    began = max([row.started_at or row.created_at, row.created_at, *(one.since for one in held)])
    return hourly("", "", amounts, _ms(began), _ms(until))


def _add(taken: Mapping[_Key, int]) -> None:
    """Adds in key order, so that concurrent writers do not deadlock."""
    rows = [(*key, amount) for key, amount in sorted(taken.items())]
    rows_add(Usage, ("vc_id", "user_id", "resource", "hour"), ("amount",), rows)


def _mark(first: int, until: datetime) -> None:
    """Bumps the mark that invalidates readers' sums of past days. A reader may be in the next day already, so the limit
    is an hour ahead."""
    UsageMark.objects.get_or_create(id=1)
    if first < past_days(until + timedelta(hours=1)):
        UsageMark.objects.update(version=F("version") + 1)


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
