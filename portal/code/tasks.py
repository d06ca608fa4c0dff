"""Celery's way in: fetch, call the service, return."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from portal.code.services import code_expire


@shared_task(name="control.code_expire")
def forget_code() -> None:
    """Delete uploaded code that no job names."""
    code_expire(now=timezone.now())
