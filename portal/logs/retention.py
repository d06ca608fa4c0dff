"""Logs go some time after their job's end. Jobs and what ended them stay."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Q

from portal.jobs.models import TaskAttempt
from portal.logs.archive_store import Archive

PARTS = 256

log = logging.getLogger(__name__)


def logs_expire(*, archive: Archive, now: datetime, part: int) -> int:
    """Deletes the logs in one of ``PARTS`` parts of the archive whose job ended ``LOG_RETENTION_DAYS`` ago, and what is
    left of those that their virtual cluster had no room for.

    A log whose attempt the database does not know stays: the database may be a restored older one. Returns how many
    were deleted.
    """
    kept = archive.attempts(f"{part % PARTS:02x}")
    oldest = now - timedelta(days=settings.LOG_RETENTION_DAYS)
    over = Q(job_attempt__job__ended_at__lt=oldest) | Q(job_attempt__job__logs_dropped_at__isnull=False)
    going = TaskAttempt.objects.filter(over, pk__in=kept).values_list("pk", flat=True)
    for pk in going:
        archive.remove(str(pk))
        log.info("log of %s deleted", pk)
    return len(going)
