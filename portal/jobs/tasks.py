"""Celery's way in: fetch, call the service, return."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from portal.jobs.logs.archiver import archive_sweep


@shared_task(name="control.archive_sweep")
def sweep() -> None:
    """Archive the logs that are due."""
    archive_sweep(now=timezone.now())
