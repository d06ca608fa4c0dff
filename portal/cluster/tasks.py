"""Celery's way in: fetch, call the service, return."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from portal.cluster.services.history import gpus_count


@shared_task(name="control.gpus_count")
def count_gpus() -> None:
    """Note how many GPUs are free, held and sick."""
    gpus_count(now=timezone.now())
