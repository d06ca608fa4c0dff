"""Logs go some time after their job's end. Jobs and what ended them stay."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.conf import settings

from portal.jobs.logs.archive import Archive
from portal.jobs.models import TaskAttempt

PARTS = 256

log = logging.getLogger(__name__)


def logs_expire(*, archive: Archive, now: datetime, part: int) -> int:
    """Deletes the logs in one of ``PARTS`` parts of the archive whose job ended ``LOG_RETENTION_DAYS`` ago.

    A log whose attempt the database does not know stays: the database may be a restored older one. Returns how many
    were deleted.
    """
    kept = archive.attempts(f"{part % PARTS:02x}")
    oldest = now - timedelta(days=settings.LOG_RETENTION_DAYS)
    old = TaskAttempt.objects.filter(pk__in=kept, job_attempt__job__ended_at__lt=oldest).values_list("pk", flat=True)
    for pk in old:
        archive.remove(str(pk))
        log.info("log of %s deleted: its job ended more than %s days ago", pk, settings.LOG_RETENTION_DAYS)
    return len(old)
