"""What guaranteed tasks took, hour by hour: the record that fair share between users is made from."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta

from django.db.models import Case, F, Value, When

from portal.jobs.models import Allocation, TaskAttempt, Usage, UsageMark
from portal.jobs.selectors.usage import past_days
from scheduling import LeafUse, Standing, TaskPlacement, TaskRef
from scheduling.usage import HOUR_MS, amounts_of, hourly


def usage_charge(*, row: TaskAttempt, until: datetime) -> None:
    """Add what a task attempt has taken by its present right up to ``until``; inside the transaction that ends it.

    ``row`` comes with its job attempt and job. The scheduler's own rule says what counts.
    """
    held = list(
        Allocation.objects.filter(task_attempt=row, released_at__isnull=True).values_list(
            "leaf__cell_type__name", "virtual_cell", "standing", "since"
        )
    )
    leaves = {str(number): leaf_type for number, (leaf_type, *_) in enumerate(held)}
    uses = [
        LeafUse(str(number), cell or None, Standing(standing)) for number, (_, cell, standing, _) in enumerate(held)
    ]
    amounts = amounts_of(TaskPlacement(TaskRef("", 0), "", tuple(uses), row.cpu_milli, row.memory_mb), leaves)
    # Not before its placement, whatever the node's clock says of its start.
    began = max([row.started_at or row.created_at, row.created_at, *(since for *_, since in held)])
    job = row.job_attempt.job
    by_resource: dict[str, dict[int, int]] = defaultdict(dict)
    for one in hourly("", "", amounts, _ms(began), _ms(until)):
        by_resource[one.resource][one.hour_ms // HOUR_MS] = one.amount
    for resource in sorted(by_resource):
        _add(job.vc_id, job.user_id, resource, by_resource[resource])
    if by_resource:
        _mark(min(min(hours) for hours in by_resource.values()), until)


def _mark(first: int, until: datetime) -> None:
    """Readers keep what past days weigh. A reader may be at the next day already, so the limit is an hour ahead."""
    UsageMark.objects.get_or_create(id=1)
    if first < past_days(until + timedelta(hours=1)):
        UsageMark.objects.update(version=F("version") + 1)


def _add(vc_id: int, user_id: int, resource: str, amounts: dict[int, int]) -> None:
    """Two queries, however long the task ran: one whole hour's amount is that of every other."""
    Usage.objects.bulk_create(
        [Usage(vc_id=vc_id, user_id=user_id, resource=resource, hour=hour, amount=0) for hour in sorted(amounts)],
        ignore_conflicts=True,
    )
    first, last = min(amounts), max(amounts)
    ends = [When(hour=hour, then=Value(amounts[hour])) for hour in {first, last}]
    whole = next((amount for hour, amount in amounts.items() if first < hour < last), 0)
    hours = Usage.objects.filter(vc=vc_id, user=user_id, resource=resource, hour__range=(first, last))
    hours.update(amount=F("amount") + Case(*ends, default=Value(whole)))


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
