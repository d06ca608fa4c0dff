"""What was sent, or given up, is forgotten after a while; what never had its turn is given up."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Case, F, Q, Value, When
from django.db.models.functions import Concat, Left

from portal.notices.models import Delivery, Lane, Mail
from portal.notices.services.mails import LANE
from portal.notices.services.sending import CLAIM, MOST_ERROR
from portal.notices.services.webhook import TARGET
from portal.notices.states import AHEAD, GIVE_UP_AFTER, SendingState

AT_ONCE = 5_000
MODELS = {LANE: Mail, TARGET: Delivery}
GIVEN_UP = Case(
    When(attempts=0, then=Value("Given up after a day in which nothing was taken; it was not tried.")),
    default=Left(Concat(Value("Given up after a day: "), F("error")), MOST_ERROR),
)

log = logging.getLogger(__name__)


def notices_give_up(*, now: datetime) -> int:
    """Give up what has waited for a day while the other end does not answer, tried or not; how many. Then only one is
    tried at a time, so that all others would wait for as long as that lasts."""
    gone = 0
    for lane in Lane.objects.filter(failures__gt=0):
        mine = Q(claimed_until__gt=now, claimed_until__lte=now + AHEAD + CLAIM)  # somebody is trying it
        old = MODELS[lane.name]._default_manager.filter(state=SendingState.WAITING, created_at__lt=now - GIVE_UP_AFTER)
        count = old.exclude(mine).update(state=SendingState.GIVEN_UP, ended_at=now, error=GIVEN_UP)
        if count:
            log.warning("%s: %s were given up after a day in which nothing was taken", lane.name, count)
        gone += count
    return gone


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
