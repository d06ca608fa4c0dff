"""What was sent, or given up, is forgotten after a while."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings

from portal.notices.models import Delivery, Mail
from portal.notices.states import SendingState

AT_ONCE = 5_000


def notices_expire(*, now: datetime) -> int:
    """Delete mails, with their notices, and deliveries that ended so many days ago; how many. A call deletes some
    thousands of each at most."""
    before = now - timedelta(days=settings.NOTICE_DAYS)
    gone = 0
    for model in (Mail, Delivery):
        old = model._default_manager.filter(ended_at__lt=before).exclude(state=SendingState.WAITING)
        keys = list(old.order_by("ended_at").values_list("pk", flat=True)[:AT_ONCE])
        model._default_manager.filter(pk__in=keys).delete()
        gone += len(keys)
    return gone
