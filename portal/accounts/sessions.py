"""Deletes expired browser sessions."""

from __future__ import annotations

from datetime import datetime

from django.contrib.sessions.models import Session

EXPIRED_AT_ONCE = 1000
BATCHES = 20


def sessions_expire(*, now: datetime) -> int:
    """Deletes expired sessions in batches, so that no statement holds many rows; after ``BATCHES`` the rest waits for
    the next call. Returns how many."""
    gone = 0
    for _ in range(BATCHES):
        over = Session.objects.filter(expire_date__lt=now).order_by("expire_date")
        keys = list(over.values_list("pk", flat=True)[:EXPIRED_AT_ONCE])
        # Checked again: one may have been prolonged meanwhile.
        gone += Session.objects.filter(pk__in=keys, expire_date__lt=now).delete()[0]
        if len(keys) < EXPIRED_AT_ONCE:
            break
    return gone
