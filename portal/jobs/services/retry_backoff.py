"""How long what has ended waits before it is tried again: a job, or one task of a job that is no gang."""

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
"""Further ahead no pause ends that was set by a clock that is right, or ahead by a little: one that does has come."""
NODE_START_WINDOW = timedelta(seconds=60)
"""A container that ends for its node's fault within this time of its start counts as a failed start."""
LOOKED_AT = 32
"""So many of the newest ends are looked at; what was tried oftener in a row has long reached the most."""


class Blame(Enum):
    """Whose doing an end was."""

    OWN = "own"
    NODE = "node"  # a start that failed there
    OTHERS = "others"  # taken back, drained, or lost with its node


class Ended(NamedTuple):
    """One end, and for how long it had run."""

    blame: Blame
    ran: timedelta


def backoff(ends: Iterable[Ended]) -> timedelta:
    """The pause after the first of these ends, which are newest first.

    1. What others did to it costs no pause: they need its place, or a whole node, each time.
    2. Its own end costs 5 s, twice as long each time, 15 minutes at most.
    3. A node's fault the same, but the first: the task goes elsewhere, and mostly that is all.
    4. A run of 15 minutes or more begins the count anew.
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
    """The pause after the job's newest attempt, which has ended; one query. A node's fault counts as the job's own end:
    all of it starts anew, and what its node finds out of its GPUs shall be known by then."""
    rows = JobAttempt.objects.filter(job=job).order_by("-number").values_list("end_reason", "started_at", "ended_at")
    return backoff(
        Ended(Blame.OTHERS if reason in _OTHERS else Blame.OWN, ran(started, ended))
        for reason, started, ended in rows[:LOOKED_AT]
    )


def task_backoff(*, row: TaskAttempt) -> timedelta:
    """The pause after this run of a task, which has ended; its runs before count that are of the same attempt of the
    job. One query."""
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
    """Whether it was made to end while its attempt goes on: nothing of it is its own doing."""
    ours = row.cause in {Cause.STOPPED, Cause.UNKILLABLE}
    return ours and row.stop_reason in {StopReason.PREEMPTED, StopReason.DRAINED, StopReason.START_FAILED}


def at_start(row: TaskAttempt) -> bool:
    """Whether it ended before it could do anything, or soon after."""
    if row.started_at is None or row.ended_at is None:
        return True
    return row.ended_at - row.started_at <= NODE_START_WINDOW


def failed_at_start(attempt: JobAttempt) -> bool:
    """Whether the attempt, which has ended, came to nothing: it never ran, or not for long."""
    return ran(attempt.started_at, attempt.ended_at) <= NODE_START_WINDOW


def ran(started: datetime | None, ended: datetime | None) -> timedelta:
    """For how long it ran; nothing of what never did."""
    return ended - started if started and ended else timedelta()
