"""Deletes logs some time after their job's end. Jobs and their outcomes stay."""

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
    """Deletes, in one of ``PARTS`` parts of the archive, logs of jobs that ended ``LOG_RETENTION_DAYS`` ago, and
    remains of those deleted for quota.

    Logs of attempts unknown to the database stay: it may have been restored from an older backup. Returns how many were
    deleted.
    """
    kept = archive.attempts(f"{part % PARTS:02x}")
    oldest = now - timedelta(days=settings.LOG_RETENTION_DAYS)
    over = Q(job_attempt__job__ended_at__lt=oldest) | Q(job_attempt__job__logs_dropped_at__isnull=False)
    going = TaskAttempt.objects.filter(over, pk__in=kept).values_list("pk", flat=True)
    for pk in going:
        archive.remove(str(pk))
        log.info("log of %s deleted", pk)
    return len(going)
