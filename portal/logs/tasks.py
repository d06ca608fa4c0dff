"""Celery tasks for logs: fetch, call the service, return."""

from __future__ import annotations

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from portal.logs.archive_store import Archive
from portal.logs.archiver import archive_sweep
from portal.logs.quota import logs_give_way
from portal.logs.retention import logs_expire


@shared_task(name="control.archive_sweep")
def sweep() -> None:
    """Archive the logs that are due."""
    archive_sweep(now=timezone.now())


@shared_task(name="control.logs_expire")
def expire() -> None:
    """Delete old logs: one part of the archive each minute, all of it each five hours."""
    now = timezone.now()
    logs_expire(archive=Archive(settings.LOG_DIR), now=now, part=int(now.timestamp()) // 60)


@shared_task(name="control.logs_give_way")
def give_way() -> None:
    """Delete the logs that virtual clusters have no room for."""
    logs_give_way(archive=Archive(settings.LOG_DIR), now=timezone.now())
