"""Reconciles rows each cycle: tasks of lost nodes, slow starts and stops, time limits, missed ends."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.fields.json import KeyTransform

from nodes.protocol.states import ContainerState, Phase, StopReason
from portal.common.prepared import Prepared
from portal.common.row_versions import KeptRows
from portal.job_file.model import JobSpec
from portal.jobs import wordings
from portal.jobs.container import grace_seconds
from portal.jobs.models import JobAttempt, JobEvent, TaskAttempt
from portal.jobs.services.attempts import attempt_end
from portal.jobs.services.bad_hardware import faulty_evict, trials_judge
from portal.jobs.services.drain import nodes_drain
from portal.jobs.services.lost import endless_tasks_give_up, lost_tasks_give_up
from portal.jobs.services.outcome import attempt_decide
from portal.jobs.services.transitions import job_event, job_hold
from portal.jobs.states import AttemptState, EndReason
from portal.node_orders.services.reports import attempt_log_done
from portal.node_orders.services.returned import gangs_wait_no_longer
from portal.scheduler.unprepared import NOT_PREPARED, starting_judge

NOT_STARTED = [*NOT_PREPARED, ContainerState.PREPARED, ContainerState.STARTING]
LIMIT_NEAR = "time_limit_near"
LONGEST_WARNING_S, SHORTEST_WARNED_S = 900, 600
"""A job is warned when a tenth of its time limit is left, at most 15 minutes before; a limit under 10 minutes:
never."""


def jobs_reconcile(*, now: datetime) -> None:
    """Redo, from the rows alone, whatever a lost message or a killed process left undone."""
    lost_tasks_give_up(now=now)
    gangs_wait_no_longer(now=now)
    endless_tasks_give_up(now=now)
    nodes_drain(now=now)
    faulty_evict(now=now)
    trials_judge(now=now)
    starting_judge(attempts=[*_attempts(_STARTING())], now=now)
    for attempt in _attempts(_ENDING()):
        with transaction.atomic():
            job_hold(attempt.job_id)
            attempt_decide(attempt=attempt, now=now)
    _time_limits(now)
    _logs_done()


def _starting() -> QuerySet[JobAttempt, int]:
    holding = TaskAttempt.objects.filter(released_at__isnull=True)
    starting = holding.filter(phase__in=[Phase.PREPARE, Phase.RUN], state__in=NOT_STARTED)
    live = JobAttempt.objects.filter(state__in=[AttemptState.STARTING, AttemptState.RUNNING])
    return live.filter(pk__in=starting.values("job_attempt")).order_by().values_list("pk", flat=True)


_STARTING = Prepared(_starting)
_ENDING = Prepared(lambda: JobAttempt.objects.filter(state=AttemptState.ENDING).order_by().values_list("pk", flat=True))


def _attempts(keys: Collection[int]) -> Iterable[JobAttempt]:
    # By key, since a row with its whole job is large: usually there are none.
    return JobAttempt.objects.filter(pk__in=keys).select_related("job__user").order_by("id") if keys else ()


_running = KeptRows(
    lambda: JobAttempt.objects.filter(state=AttemptState.RUNNING),
    ["id", "started_at", KeyTransform("time_limit_s", KeyTransform("berth", F("job__spec")))],
    key=int,
)
"""Running attempts: since when, and their time limit in s. A job's time limit never changes."""


def _time_limits(now: datetime) -> None:
    over, near = [], []
    for key, began, limit in _running.read().values():
        if limit and began is not None:
            left = limit - (now - began).total_seconds()
            if left <= 0:
                over.append(key)
            elif left <= LONGEST_WARNING_S and left <= limit / 10 and limit >= SHORTEST_WARNED_S:
                near.append(key)
    _limits_near(near, now)
    for attempt in _attempts(over):
        berth = JobSpec.from_json(attempt.job.spec).berth
        attempt_end(
            attempt=attempt, reason=EndReason.TIME_LIMIT, now=now, stop=StopReason.TIME_LIMIT,
            message=wordings.LIMIT_REACHED(seconds=berth.time_limit_s),
            grace_s=grace_seconds(berth.grace_period_s),
        )  # fmt: skip


_warned: set[int] = set()
"""Attempts near their limit that have their event; only saves queries."""


def _limits_near(near: list[int], now: datetime) -> None:
    """Warn once per attempt."""
    _warned.intersection_update(near)
    for attempt in _attempts([key for key in near if key not in _warned]):
        with transaction.atomic():
            job_hold(attempt.job_id)
            if not JobEvent.objects.filter(job_attempt=attempt, code=LIMIT_NEAR).exists():
                ends = attempt.started_at + timedelta(seconds=attempt.job.spec["berth"]["time_limit_s"])  # type: ignore[operator]  # it runs
                message = wordings.LIMIT_NEAR(time=f"{ends:%Y-%m-%d %H:%M:%S}")
                job_event(job=attempt.job, job_attempt=attempt, code=LIMIT_NEAR, message=message, now=now)
        _warned.add(attempt.pk)


def _logged() -> QuerySet[TaskAttempt, UUID]:
    rows = TaskAttempt.objects.filter(
        state=ContainerState.TERMINATED, log_complete=True, archived_to__gte=F("log_end"), removed_at__isnull=True
    ).exclude(phase=Phase.REMOVE)
    return rows.order_by().values_list("pk", flat=True)


_LOGGED = Prepared(_logged)


def _logs_done() -> None:
    keys = _LOGGED()
    for row in TaskAttempt.objects.filter(pk__in=keys).select_related("job_attempt") if keys else ():
        attempt_log_done(row=row)
