"""Celery tasks for job folders: fetch, call the service, return."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from portal.files.deleting import folders_expire


@shared_task(name="control.folders_expire")
def expire_folders() -> None:
    """Have the folders of jobs deleted that ended long ago."""
    folders_expire(now=timezone.now())
