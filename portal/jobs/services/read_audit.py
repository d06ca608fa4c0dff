"""Who reads what is another's is noted, and whoever works inside a job."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from portal.accounts.audit import audit_read, audit_write
from portal.accounts.models import Audited, User
from portal.jobs.models import Job, TaskAttempt


def log_read(*, user: User, attempt: TaskAttempt, now: datetime) -> None:
    """The user reads this task attempt's log: an entry in the audit log where the job is another's."""
    _read(Audited.LOG_READ, user, attempt.task.job, now)


def logs_read(*, user: User, job: Job, now: datetime) -> None:
    """The user reads logs of this job's tasks: an entry in the audit log where the job is another's."""
    _read(Audited.LOG_READ, user, job, now)


def files_read(*, user: User, job: Job, now: datetime) -> None:
    """The user looks into this job's folder: an entry in the audit log where the job is another's."""
    _read(Audited.FILES_READ, user, job, now)


def shell_open(*, user: User, attempt: TaskAttempt, command: Sequence[str], now: datetime) -> None:
    """The user starts a program in this task: an entry in the audit log, whoever it is. Of a command only its first
    word: what follows may hold a secret."""
    job, task = attempt.task.job, f"{attempt.task.role.name}/{attempt.task.index}"
    told = {"task": task, "attempt": str(attempt.pk), "node": attempt.node.name, "command": (*command[:1],)}
    audit_write(Audited.SHELL, actor=user.username, target=job.label, vc=job.vc.name, now=now, after=told)


def _read(action: Audited, user: User, job: Job, now: datetime) -> None:
    if job.user_id != user.pk:
        audit_read(action, actor=user.username, target=job.label, vc=job.vc.name, now=now)
