"""The GPUs that parked tasks left, and their claims on them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from django.db.models import F, Q

from portal.common.bulk import rows_insert
from portal.jobs.models import Allocation, Claim, Standing, TaskAttempt


class Left(NamedTuple):
    """A GPU that a parked task left (row ids), and its virtual cell."""

    leaf: int
    claimant: int
    task: int
    virtual_cell: str


def places_left(rows: Sequence[TaskAttempt]) -> list[Left] | None:
    """The GPUs that the parked ones of these tasks have left; None if one of them, or a virtual cell, is somebody
    else's by right now. Three queries; none without parked ones."""
    parked = [row.pk for row in rows if row.parked_at is not None]
    if not parked:
        return []
    left = Allocation.objects.filter(task_attempt__in=parked, released_at=F("task_attempt__parked_at"))
    columns = ("leaf", "task_attempt__job_attempt__job", "task_attempt__task", "virtual_cell")
    places = [Left(*one) for one in left.order_by("leaf").values_list(*columns)]
    same = Q(leaf__in=[one.leaf for one in places]) | Q(virtual_cell__in=[one.virtual_cell for one in places])
    held = Allocation.objects.filter(same, released_at=None, standing=Standing.GUARANTEED)
    claimed = Claim.objects.filter(same).exclude(claimant__in=[one.claimant for one in places])
    return None if not places or held.exists() or claimed.exists() else places


def places_claim(places: Sequence[Left], *, now: datetime) -> None:
    """Claims these GPUs, which are lent until the job is resumed, in place of what these tasks claimed; inside the
    caller's transaction."""
    if not places:
        return
    Claim.objects.filter(task__in=[one.task for one in places]).delete()
    columns = ("leaf", "claimant", "task", "virtual_cell", "victim", "parked", "created_at")
    rows_insert(Claim, columns, [(*one, None, True, now) for one in places])
