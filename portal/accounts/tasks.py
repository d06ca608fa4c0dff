"""Celery's way in: fetch, call the service, return."""

from __future__ import annotations

from smtplib import SMTPException

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from portal.accounts.resets import MAIL_TASK, reset_mails_send
from portal.accounts.sessions import sessions_expire


@shared_task(name=MAIL_TASK, autoretry_for=(SMTPException, OSError), max_retries=3, retry_backoff=5)
def password_mail(typed: str) -> None:
    """Send a link for a new password to whoever has this name or address."""
    if settings.EMAIL_ON:
        reset_mails_send(typed=typed, now=timezone.now())


@shared_task(name="control.sessions_expire")
def forget_sessions() -> None:
    """Delete browsers' sessions that are over."""
    sessions_expire(now=timezone.now())
