"""Celery's way in: fetch, call the service, return."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from portal.usage.services.rollup import usage_open_days_keep, usage_roll


@shared_task(name="control.usage_roll")
def roll() -> None:
    """Sum up the usage of days that are over, and keep what the others add up to so far."""
    now = timezone.now()
    usage_roll(now=now)
    usage_open_days_keep(now=now)
