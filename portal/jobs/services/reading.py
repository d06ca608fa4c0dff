"""Who reads what is another's is noted."""

from __future__ import annotations

from datetime import datetime

from portal.accounts.audit import audit_read
from portal.accounts.models import Audited, User
from portal.jobs.models import CodeFolder, CodeUpload, TaskAttempt


def log_read(*, user: User, attempt: TaskAttempt, now: datetime) -> None:
    """The user reads this task attempt's log: an entry in the audit log where the job is another's."""
    job = attempt.task.job
    if job.user_id != user.pk:
        audit_read(Audited.LOG_READ, actor=user.username, target=job.label, vc=job.vc.name, now=now)


def code_read(*, user: User, code: CodeFolder, now: datetime) -> None:
    """The user downloads this code: an entry in the audit log where they did not upload it."""
    if not CodeUpload.objects.filter(code=code, user=user).exists():
        audit_read(Audited.CODE_READ, actor=user.username, target=code.name, now=now)
