"""Celery's way in: fetch, call the service, return."""

from __future__ import annotations

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from portal.jobs.logs.archive import Archive
from portal.jobs.logs.archiver import archive_sweep
from portal.jobs.logs.retention import logs_expire
from portal.jobs.services import code_expire


@shared_task(name="control.archive_sweep")
def sweep() -> None:
    """Archive the logs that are due."""
    archive_sweep(now=timezone.now())


@shared_task(name="control.logs_expire")
def expire() -> None:
    """Delete old logs: one part of the archive each minute, all of it each five hours."""
    now = timezone.now()
    logs_expire(archive=Archive(settings.LOG_DIR), now=now, part=int(now.timestamp()) // 60)


@shared_task(name="control.code_expire")
def forget_code() -> None:
    """Delete uploaded code that no job names."""
    code_expire(now=timezone.now())
