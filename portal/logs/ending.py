"""How a log ends: whole, or cut short with its server; and when it goes.

Nothing of this is stored: when the server comes back with the rest in its spool, the log is open again by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from portal.hardware.states import NodeHealth
from portal.jobs.models import Job, TaskAttempt

AGE, QUOTA = "age", "quota"


@dataclass(frozen=True, slots=True)
class LogGone:
    """When a job's logs were deleted, and whether for their ``AGE`` or for their virtual cluster's ``QUOTA``."""

    at: datetime
    because: str


def log_archived(row: TaskAttempt) -> bool:
    """Whether nothing is added any more and all of it was written to the archive."""
    return row.log_complete and row.archived_to >= row.log_end


def log_given_whole(row: TaskAttempt, end: int, *, gone: LogGone | None) -> bool:
    """Whether who has read up to ``end``, and what is said behind it, has all that there will be. Needs the node
    loaded."""
    read = row.log_complete and (end >= row.log_end or log_archived(row))
    return read or gone is not None or bool(log_lost_with(row))


def log_lost_with(row: TaskAttempt) -> str:
    """The server with which the rest of this log was lost; empty while more may come, and where nothing is missing.
    Needs the node loaded."""
    gone = row.node.removed_at is not None or row.node.health == NodeHealth.LOST
    return row.node.name if gone and row.over and not log_archived(row) else ""


def log_gone(job: Job, *, now: datetime) -> LogGone | None:
    """None for logs that are kept. That they went for their age is not stored: it follows from the job's end."""
    if job.logs_dropped_at is not None:
        return LogGone(job.logs_dropped_at, QUOTA)
    last = job.ended_at and job.ended_at + timedelta(days=settings.LOG_RETENTION_DAYS)
    return LogGone(last, AGE) if last is not None and last < now else None


def gone_line(gone: LogGone) -> str:
    """What a downloaded text says in place of the log."""
    why = (
        "its virtual cluster has no room for more logs"
        if gone.because == QUOTA
        else f"logs are kept {settings.LOG_RETENTION_DAYS} days"
    )
    return f"… this log was deleted at {gone.at:%Y-%m-%d %H:%M} UTC: {why}\n"


def last_line(row: TaskAttempt, job: Job, *, now: datetime) -> str:
    """What a downloaded text says behind the log, of what is missing. Needs the node loaded."""
    gone = log_gone(job, now=now)
    return gone_line(gone) if gone else lost_line(log_lost_with(row))


def lost_line(node: str) -> str:
    """What stands where the rest would be; empty where nothing is missing."""
    return f"… the rest of this log was lost with node {node}\n" if node else ""
