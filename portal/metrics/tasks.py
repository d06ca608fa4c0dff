"""Celery's way in: fetch, call the service, return."""

from __future__ import annotations

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from portal.logs.stream import streams_client
from portal.metrics.folding import samples_fold
from portal.metrics.record import Records


@shared_task(name="control.samples_fold")
def fold() -> None:
    """Put what tasks used in the minutes that are over into their records."""
    samples_fold(now=timezone.now(), redis=streams_client(), records=Records(settings.METRICS_DIR))
