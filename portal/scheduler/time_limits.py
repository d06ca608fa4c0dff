"""Ends attempts whose time limit is over, and warns of those near it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import transaction
from django.db.models import Exists, F, OuterRef
from django.db.models.fields.json import KeyTransform

from nodes.protocol.states import StopReason
from portal.common.row_versions import KeptRows
from portal.jobs import wordings
from portal.jobs.container import grace_seconds
from portal.jobs.models import JobAttempt, JobEvent, TaskAttempt
from portal.jobs.services.attempts import attempt_end
from portal.jobs.services.transitions import job_event, job_hold
from portal.jobs.states import AttemptState, EndReason
from portal.parking.selectors import OFF_GPU
from portal.scheduler.reconcile import attempts_read

LIMIT_NEAR = "time_limit_near"
LONGEST_WARNING_S, SHORTEST_WARNED_S = 900, 600
"""A job is warned when a tenth of its time limit is left, at most 15 minutes before; a limit under 10 minutes:
never."""
_PARKED = TaskAttempt.objects.filter(OFF_GPU, job_attempt=OuterRef("pk"))


class _Running(NamedTuple):
    """A running attempt that is not parked. A job's time limit never changes."""

    id: int
    started_at: datetime | None
    parked_s: int
    limit_s: int | None


class TimeLimits:
    """Holds running attempts to their time limits."""

    def __init__(self) -> None:
        self._running = KeptRows(
            lambda: JobAttempt.objects.filter(~Exists(_PARKED), state=AttemptState.RUNNING),
            ["id", "started_at", "parked_s", KeyTransform("time_limit_s", KeyTransform("berth", F("job__spec")))],
            key=int,
            make=_Running._make,
        )

    def enforce(self, *, now: datetime) -> None:
        """End those that are over; warn of those near, once per attempt."""
        over, near = [], []
        for key, began, parked_s, limit_s in self._running.read().values():
            if limit_s and began is not None:
                left = limit_s + parked_s - (now - began).total_seconds()
                if left <= 0:
                    over.append(key)
                elif left <= LONGEST_WARNING_S and left <= limit_s / 10 and limit_s >= SHORTEST_WARNED_S:
                    near.append(key)
        if near:
            _warn(near, now)
        for attempt in attempts_read(over):
            berth = attempt.job.spec["berth"]
            attempt_end(
                attempt=attempt, reason=EndReason.TIME_LIMIT, now=now, stop=StopReason.TIME_LIMIT,
                message=wordings.LIMIT_REACHED(seconds=berth["time_limit_s"]),
                grace_s=grace_seconds(berth.get("grace_period_s")),
            )  # fmt: skip


def _warn(near: Collection[int], now: datetime) -> None:
    warnings = JobEvent.objects.filter(code=LIMIT_NEAR)
    warned = set(warnings.filter(job_attempt__in=near).values_list("job_attempt", flat=True))
    for attempt in attempts_read([key for key in near if key not in warned]):
        with transaction.atomic():
            job_hold(attempt.job_id)
            if attempt.started_at is not None and not warnings.filter(job_attempt=attempt).exists():
                runs_s = attempt.job.spec["berth"]["time_limit_s"] + attempt.parked_s
                ends = attempt.started_at + timedelta(seconds=runs_s)
                message = wordings.LIMIT_NEAR(time=f"{ends:%Y-%m-%d %H:%M:%S}")
                job_event(job=attempt.job, job_attempt=attempt, code=LIMIT_NEAR, message=message, now=now)
