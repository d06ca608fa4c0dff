"""Celery's way in: fetch, call the service, return."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from portal.idle.services.warnings import idle_judge


@shared_task(name="control.idle_judge")
def judge() -> None:
    """Warn of idle GPUs, and do what was announced."""
    idle_judge(now=timezone.now())
