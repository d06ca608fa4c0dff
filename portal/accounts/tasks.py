"""Celery tasks for accounts: fetch, call the service, return."""

from __future__ import annotations

import logging
from smtplib import SMTPException

from celery import Task, shared_task
from django.conf import settings
from django.utils import timezone

from portal.accounts.resets import MAIL_TASK, reset_mails_send
from portal.accounts.sessions import sessions_expire
from portal.common.mail_faults import mail_fault

log = logging.getLogger(__name__)


RETRIES, FIRST_PAUSE_S = 3, 5


@shared_task(name=MAIL_TASK, bind=True, max_retries=RETRIES)
def password_mail(self: Task[[str], None], typed: str) -> None:
    """Send a link for a new password to whoever has this name or address."""
    if not settings.EMAIL_ON:
        return
    try:
        reset_mails_send(typed=typed, now=timezone.now())
    except (SMTPException, OSError) as error:
        log.warning("a link for a new password is not sent: %s", mail_fault(error))
        if (tries := self.request.retries) < RETRIES:
            raise self.retry(countdown=FIRST_PAUSE_S * 2**tries) from None


@shared_task(name="control.sessions_expire")
def forget_sessions() -> None:
    """Delete browsers' sessions that are over."""
    sessions_expire(now=timezone.now())
