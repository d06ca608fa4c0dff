"""Backoff before a retry: of a job, or of one task of a job that is no gang."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import Enum
from typing import NamedTuple

from nodes.protocol.states import NODE_FAULTS, Cause, StopReason
from portal.jobs.models import Job, JobAttempt, TaskAttempt
from portal.jobs.states import EndReason

FIRST, MOST = timedelta(seconds=5), timedelta(minutes=15)
PAUSE_FURTHEST = MOST + timedelta(minutes=1)
"""A retry time further ahead than this was written by a wrong clock; treat it as due."""
NODE_START_WINDOW = timedelta(seconds=60)
"""A container that ends through its node's fault within this time of its start counts as a failed start."""
LOOKED_AT = 32
"""How many of the newest ends are read; more failures in a row have long reached the maximum."""


class Blame(Enum):
    """Who caused an end."""

    OWN = "own"
    NODE = "node"  # a start that failed there
    OTHERS = "others"  # preempted, drained, or lost with its node


class Ended(NamedTuple):
    """One end, and how long it had run."""

    blame: Blame
    ran: timedelta


def backoff(ends: Iterable[Ended]) -> timedelta:
    """The pause after the first of these ends, which are newest first.

    1. An end caused by others costs no pause: they need its place, or a whole node, each time.
    2. Its own end costs 5 s, doubling each time, 15 minutes at most.
    3. A node's fault the same, but the first is free: the task goes elsewhere, which is usually enough.
    4. A run of 15 minutes or more resets the count.
    """
    blame, count = None, 0
    for end in ends:
        blame = blame or end.blame
        count += end.blame is blame
        if end.ran >= MOST:
            break
    if blame is Blame.NODE:
        count -= 1
    if blame is Blame.OTHERS or not count:
        return timedelta()
    return min(FIRST * (1 << min(count - 1, 10)), MOST)


_OTHERS = {EndReason.NODE_LOST, EndReason.DRAINED, EndReason.PREEMPTED}


def job_backoff(*, job: Job) -> timedelta:
    """The pause after the job's newest attempt, which has ended; one query. A node's fault counts as the job's own: all
    of it restarts, and by then the node should know the state of its GPUs."""
    rows = JobAttempt.objects.filter(job=job).order_by("-number").values_list("end_reason", "started_at", "ended_at")
    return backoff(
        Ended(Blame.OTHERS if reason in _OTHERS else Blame.OWN, ran(started, ended))
        for reason, started, ended in rows[:LOOKED_AT]
    )


def task_backoff(*, row: TaskAttempt) -> timedelta:
    """The pause after this ended task attempt; earlier ones of the same job attempt count. One query."""
    earlier = TaskAttempt.objects.filter(task=row.task_id, number__lt=row.number, job_attempt=row.job_attempt_id)
    columns = ("lost_at", "cause", "stop_reason", "started_at", "ended_at")
    rows = [row, *earlier.only("job_attempt", *columns).order_by("-number")[: LOOKED_AT - 1]]
    return backoff(Ended(_task_blame(one), ran(one.started_at, one.ended_at)) for one in rows)


def _task_blame(row: TaskAttempt) -> Blame:
    if row.lost_at is not None:
        return Blame.OTHERS
    if gave_way(row):
        return Blame.NODE if row.stop_reason == StopReason.START_FAILED else Blame.OTHERS
    return Blame.NODE if row.cause in NODE_FAULTS and at_start(row) else Blame.OWN


def gave_way(row: TaskAttempt) -> bool:
    """Whether it was made to end while its attempt goes on: the task is not to blame."""
    ours = row.cause in {Cause.STOPPED, Cause.UNKILLABLE}
    return ours and row.stop_reason in {StopReason.PREEMPTED, StopReason.DRAINED, StopReason.START_FAILED}


def at_start(row: TaskAttempt) -> bool:
    """Whether it ended before or soon after it started."""
    if row.started_at is None or row.ended_at is None:
        return True
    return row.ended_at - row.started_at <= NODE_START_WINDOW


def failed_at_start(attempt: JobAttempt) -> bool:
    """Whether the ended attempt never ran, or not for long."""
    return ran(attempt.started_at, attempt.ended_at) <= NODE_START_WINDOW


def ran(started: datetime | None, ended: datetime | None) -> timedelta:
    """How long it ran; zero if it never did."""
    return ended - started if started and ended else timedelta()
