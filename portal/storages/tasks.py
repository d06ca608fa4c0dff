"""Celery tasks for storages: fetch, call the service, return."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from portal.storages.proving import storages_prove


@shared_task(name="control.storages_prove")
def prove_storages() -> None:
    """Have servers show that they see the storages that they are tied to."""
    storages_prove(now=timezone.now())
