"""Asks for a job to be parked, or to have its GPU back."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from portal.accounts.audit import audit_write
from portal.accounts.models import Audited
from portal.common.errors import Conflict
from portal.common.sentences import sentence, worded
from portal.common.wake import scheduler_wake
from portal.hardware.services.generations import nodes_bump
from portal.jobs.models import Job, TaskAttempt
from portal.jobs.services.transitions import job_event, job_hold
from portal.parking import wordings
from portal.parking.models import Parking, ParkState
from portal.parking.selectors import parking_of, task_to_park


def job_park(*, job: Job, actor: str, now: datetime, cause: str = "") -> None:
    """Asks its node to park the running job: off its GPU, which is lent once the node says that it is empty. Parked
    already, or about to be: no change. ``cause``: why, if the portal itself does it.

    Raises Conflict with the reason where the job cannot be parked.
    """
    why = cause or wordings.BY(who=actor)
    with transaction.atomic():
        job_hold(job.pk)
        known = parking_of(job)
        if known is not None and known.state in (ParkState.PARKING, ParkState.PARKED):
            return
        if known is not None and known.state == ParkState.WANTED:
            _set(known, ParkState.PARKED, now)
            transaction.on_commit(scheduler_wake)
        else:
            row = task_to_park(job)
            if isinstance(row, str):
                raise Conflict(sentence(worded(row)))
            _ask(row, why, now)
        job_event(job=job, code="parking", message=wordings.ASKED(why=why), now=now, actor=actor)
        audit_write(Audited.JOB_PARK, actor=actor, target=job.label, vc=job.vc.name, now=now)


def _ask(row: TaskAttempt, cause: str, now: datetime) -> None:
    known = Parking.objects.filter(task_attempt=row).first()
    Parking.objects.update_or_create(
        task_attempt=row,
        defaults={
            "turn": known.turn + 1 if known else 1, "state": ParkState.PARKING, "cause": cause, "changed_at": now,
            "fault": "",
        },
    )  # fmt: skip
    nodes_bump([row.node_id])


def job_unpark(*, job: Job, actor: str, now: datetime) -> bool:
    """The parked job wants its GPU back: whoever has it on loan is preempted, and it goes on. One that is still being
    parked keeps its GPU. Wanted already: no change. False if it is not parked."""
    with transaction.atomic():
        job_hold(job.pk)
        known = parking_of(job)
        if known is None or known.state == ParkState.HELD:
            return False
        if known.state == ParkState.PARKING:
            take_back(known, now)
        elif known.state == ParkState.PARKED:
            _set(known, ParkState.WANTED, now)
            transaction.on_commit(scheduler_wake)
        else:
            return True
        job_event(job=job, code="parking", message=wordings.WANTED(who=actor), now=now, actor=actor)
        audit_write(Audited.JOB_RESUME, actor=actor, target=job.label, vc=job.vc.name, now=now)
    return True


def take_back(known: Parking, now: datetime) -> None:
    """Orders the task to hold its GPU again, which is its own now; inside the caller's transaction."""
    known.turn, known.fault = known.turn + 1, ""
    _set(known, ParkState.RESUMING, now)
    nodes_bump([known.task_attempt.node_id])


def _set(known: Parking, state: ParkState, now: datetime) -> None:
    known.state, known.changed_at = state, now
    known.save()


def park_refusal(job: Job) -> str:
    """Why the running job cannot be parked now, as a declared sentence; empty: it can."""
    row = task_to_park(job)
    return row if isinstance(row, str) else ""
