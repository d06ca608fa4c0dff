"""End of a log: complete, or cut short with its server; and when it is deleted.

None of this is stored: if the server comes back with the rest in its spool, the log is open again by itself.
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
    """When a job's logs were deleted, and whether by ``AGE`` or by their virtual cluster's ``QUOTA``."""

    at: datetime
    because: str


def log_archived(row: TaskAttempt) -> bool:
    """Whether the log is complete and all of it is in the archive."""
    return row.log_complete and row.archived_to >= row.log_end


def log_given_whole(row: TaskAttempt, end: int, *, gone: LogGone | None) -> bool:
    """Whether a reader up to ``end`` has all that there will be, given the line appended about what is missing. Needs
    the node loaded."""
    read = row.log_complete and (end >= row.log_end or log_archived(row))
    return read or gone is not None or bool(log_lost_with(row))


def log_lost_with(row: TaskAttempt) -> str:
    """The server that the rest of this log was lost with; empty while more may come, or if nothing is missing. Needs
    the node loaded."""
    gone = row.node.removed_at is not None or row.node.health == NodeHealth.LOST
    return row.node.name if gone and row.over and not log_archived(row) else ""


def log_gone(job: Job, *, now: datetime) -> LogGone | None:
    """When and why a job's logs were deleted; None if they are kept. Expiry by age is not stored: it follows from the
    job's end."""
    if job.logs_dropped_at is not None:
        return LogGone(job.logs_dropped_at, QUOTA)
    last = job.ended_at and job.ended_at + timedelta(days=settings.LOG_RETENTION_DAYS)
    return LogGone(last, AGE) if last is not None and last < now else None


def gone_line(gone: LogGone) -> str:
    """The line that a download has in place of a deleted log."""
    why = (
        "its virtual cluster has no room for more logs"
        if gone.because == QUOTA
        else f"logs are kept {settings.LOG_RETENTION_DAYS} days"
    )
    return f"… this log was deleted at {gone.at:%Y-%m-%d %H:%M} UTC: {why}\n"


def last_line(row: TaskAttempt, job: Job, *, now: datetime) -> str:
    """The line appended to a download about what is missing; may be empty. Needs the node loaded."""
    gone = log_gone(job, now=now)
    return gone_line(gone) if gone else lost_line(log_lost_with(row))


def lost_line(node: str) -> str:
    """The line in place of a lost rest; empty if nothing is missing."""
    return f"… the rest of this log was lost with node {node}\n" if node else ""
