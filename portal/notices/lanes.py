"""Sending what is due on the ways out of the portal, one worker at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from django.conf import settings
from django.utils import timezone

from portal.notices.services.deliveries import delivery_send_next
from portal.notices.services.mails import mail_send_next, mails_make
from portal.notices.services.sending import lane_leave, lane_take

BUDGET_S = 15.0
"""A lane begins nothing more after this time, so that logs are archived in between."""


class Step(Protocol):
    def __call__(self, *, now: datetime) -> bool: ...


def send_mails() -> None:
    """Send the mails that are due."""
    if settings.EMAIL_ON:
        mails_make(now=timezone.now())
        run_lane("mail", mail_send_next)


def send_deliveries() -> None:
    """Send to the webhook what is due."""
    run_lane("webhook", delivery_send_next)


def run_lane(name: str, step: Step, clock: Callable[[], datetime] = timezone.now) -> None:
    """One after the other while there are some and time is left, unless another worker does so."""
    if not lane_take(name, now=clock()):
        return
    end = time.monotonic() + BUDGET_S
    try:
        while step(now=clock()) and time.monotonic() < end:
            pass
    finally:
        lane_leave(name, now=clock())
