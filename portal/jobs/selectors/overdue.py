"""Tasks that were told to end but are not reported ended, though their node reports."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import QuerySet

from nodes.protocol.states import ContainerState, Phase
from portal.common.prepared import Prepared, Slot
from portal.hardware.silences import AHEAD, reports_taken_for, silence_limit
from portal.hardware.states import NodeHealth
from portal.jobs.models import TaskAttempt

END_WITHIN = timedelta(minutes=10)
"""Time after the grace. By then an agent has reported every end that it can, including a survived SIGKILL (two minutes)
and an Engine that did not take the first signals (five of a minute each)."""


def stops_overdue(*, now: datetime, given_up: bool = False) -> list[UUID]:
    """Task attempts whose node has had their grace and ``END_WITHIN`` to report their end, and reports everything else.

    Time counts from the order to end, while the node reports without a gap and the portal takes reports in.
    ``given_up``: include those given up since. One query, and one more where there may be some.
    """
    told = (_ALL if given_up else _LIVE)(before=now - END_WITHIN, heard=now - silence_limit(), ahead=now + AHEAD)
    taken = reports_taken_for(now) if told else timedelta()
    return [
        key
        for key, grace_s, since, heard in told
        if since and heard and min(now - since, now - heard, taken) > END_WITHIN + timedelta(seconds=grace_s)
    ]


def _overdue() -> QuerySet[TaskAttempt, tuple[UUID, int, datetime | None, datetime | None]]:
    before = Slot("before", datetime)
    rows = TaskAttempt.objects.filter(
        released_at__isnull=True, phase=Phase.STOP, stop_since__lt=before,
        node__health=NodeHealth.HEALTHY, node__heard_since__lt=before,
        node__last_report_at__range=(Slot("heard", datetime), Slot("ahead", datetime)),
    ).exclude(state=ContainerState.TERMINATED)  # fmt: skip
    return rows.order_by("id").values_list("pk", "stop_grace_s", "stop_since", "node__heard_since")


_ALL = Prepared(_overdue)
_LIVE = Prepared(lambda: _overdue().filter(lost_at=None))
