"""Celery's way in: fetch, call the service, return."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from portal.notices.lanes import send_deliveries, send_mails
from portal.notices.services.gather import notices_gather
from portal.notices.services.upkeep import notices_expire, notices_give_up


@shared_task(name="control.notices_gather")
def gather() -> None:
    """Decide who is told of what happened."""
    notices_gather(now=timezone.now())


@shared_task(name="control.mails_send")
def mails() -> None:
    """Send the mails that are due."""
    send_mails()


@shared_task(name="control.webhook_send")
def deliveries() -> None:
    """Send to the webhook what is due."""
    send_deliveries()


@shared_task(name="control.notices_expire")
def expire() -> None:
    """Give up what never had its turn, and forget what was sent long ago."""
    notices_give_up(now=timezone.now())
    notices_expire(now=timezone.now())
