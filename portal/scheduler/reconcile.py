"""Reconciles rows each cycle: tasks of lost nodes, slow starts and stops, missed ends."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import F, QuerySet

from nodes.protocol.states import ContainerState, Phase
from portal.common.prepared import Prepared
from portal.jobs.models import JobAttempt, TaskAttempt
from portal.jobs.services.bad_hardware import faulty_evict, trials_judge
from portal.jobs.services.drain import nodes_drain
from portal.jobs.services.lost import endless_tasks_give_up, lost_tasks_give_up
from portal.jobs.services.outcome import attempt_decide
from portal.jobs.services.transitions import job_hold
from portal.jobs.states import AttemptState
from portal.node_orders.services.reports import attempt_log_done
from portal.node_orders.services.returned import gangs_wait_no_longer
from portal.parking.services.moves import parked_without_place
from portal.scheduler.unprepared import NOT_PREPARED, starting_judge

NOT_STARTED = [*NOT_PREPARED, ContainerState.PREPARED, ContainerState.STARTING]


def jobs_reconcile(*, now: datetime) -> None:
    """Redo, from the rows alone, whatever a lost message or a killed process left undone."""
    lost_tasks_give_up(now=now)
    gangs_wait_no_longer(now=now)
    endless_tasks_give_up(now=now)
    nodes_drain(now=now)
    faulty_evict(now=now)
    trials_judge(now=now)
    parked_without_place(now=now)
    starting_judge(attempts=[*attempts_read(_STARTING())], now=now)
    for attempt in attempts_read(_ENDING()):
        with transaction.atomic():
            job_hold(attempt.job_id)
            attempt_decide(attempt=attempt, now=now)
    _logs_done()


def _starting() -> QuerySet[JobAttempt, int]:
    holding = TaskAttempt.objects.filter(released_at__isnull=True)
    starting = holding.filter(phase__in=[Phase.PREPARE, Phase.RUN], state__in=NOT_STARTED)
    live = JobAttempt.objects.filter(state__in=[AttemptState.STARTING, AttemptState.RUNNING])
    return live.filter(pk__in=starting.values("job_attempt")).order_by().values_list("pk", flat=True)


_STARTING = Prepared(_starting)
_ENDING = Prepared(lambda: JobAttempt.objects.filter(state=AttemptState.ENDING).order_by().values_list("pk", flat=True))


def attempts_read(keys: Collection[int]) -> Iterable[JobAttempt]:
    """The attempts with these ids, and their jobs."""
    # By key, since a row with its whole job is large: usually there are none.
    return JobAttempt.objects.filter(pk__in=keys).select_related("job__user").order_by("id") if keys else ()


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
