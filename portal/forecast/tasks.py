"""Celery's way in: fetch, call the service, return."""

from __future__ import annotations

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from portal.forecast.estimates import starts_estimate


@shared_task(name="control.estimate_starts")
def estimate() -> None:
    """Estimate when the waiting jobs start."""
    starts_estimate(now=timezone.now(), seconds=settings.ESTIMATE_SECONDS)
