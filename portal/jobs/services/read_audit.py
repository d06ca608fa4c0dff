"""Audit entries for reading another user's job, and for shells in any job."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from portal.accounts.audit import audit_read, audit_write
from portal.accounts.models import Audited, User
from portal.jobs.models import Job, TaskAttempt


def log_read(*, user: User, attempt: TaskAttempt, now: datetime) -> None:
    """Audits reading this task attempt's log, if the job is another user's."""
    _read(Audited.LOG_READ, user, attempt.task.job, now)


def logs_read(*, user: User, job: Job, now: datetime) -> None:
    """Audits reading logs of this job's tasks, if the job is another user's."""
    _read(Audited.LOG_READ, user, job, now)


def files_read(*, user: User, job: Job, now: datetime) -> None:
    """Audits reading this job's folder, if the job is another user's."""
    _read(Audited.FILES_READ, user, job, now)


def shell_open(*, user: User, attempt: TaskAttempt, command: Sequence[str], now: datetime) -> None:
    """Audits starting a program in this task, whoever does it. Only the command's first word is stored: the rest may
    hold a secret."""
    job, task = attempt.task.job, f"{attempt.task.role.name}/{attempt.task.index}"
    told = {"task": task, "attempt": str(attempt.pk), "node": attempt.node.name, "command": (*command[:1],)}
    audit_write(Audited.SHELL, actor=user.username, target=job.label, vc=job.vc.name, now=now, after=told)


def _read(action: Audited, user: User, job: Job, now: datetime) -> None:
    if job.user_id != user.pk:
        audit_read(action, actor=user.username, target=job.label, vc=job.vc.name, now=now)
