"""The cycle's lease: a row with holder and end. Any database, any number of schedulers."""

from __future__ import annotations

import os
import secrets
import socket
from datetime import datetime, timedelta
from functools import cache

from django.db.models import Case, F, Q, Value, When

from portal.scheduler.models import CycleLease


@cache
def holder_own() -> str:
    """This process among all schedulers: on several machines, and in containers, where each is process 1, under host
    names that may be the same."""
    return f"{socket.gethostname()[:60]}:{os.getpid()}:{secrets.token_hex(8)}"


def lease_take(*, holder: str, now: datetime, seconds: int) -> bool:
    """Take or prolong the lease; False while another holder's has not run out.

    Who takes one under which no cycle went well, as after an installation or a restore, or none before a time to come
    (the clock was set right), counts from now: cycles that fail from then on would else not be told of
    (``queue_standing``).
    """
    free = Q(holder=holder) | ~lease_held(now=now, seconds=seconds)
    well_at = Case(When(well_at__lte=now, then=F("well_at")), default=Value(now))
    mine = {"holder": holder, "until": now + timedelta(seconds=seconds), "well_at": well_at}
    lease = CycleLease.objects.filter(free, id=1)
    if lease.update(**mine):
        return True
    _, made = CycleLease.objects.get_or_create(id=1, defaults={"holder": "", "until": now})
    return made and bool(lease.update(**mine))


def lease_held(*, now: datetime, seconds: int) -> Q:
    """Of a lease: somebody may have it, who takes it for so many seconds at a time. One that ends later than that was
    given by a clock that has been set right since; twice as long, since clocks differ."""
    return Q(until__gt=now, until__lte=now + timedelta(seconds=2 * seconds))


def lease_release(*, holder: str, now: datetime, well: bool) -> None:
    """Give it back at the end of a cycle, so that another scheduler may go on at once. ``well``: the cycle came to its
    end and could do what it decided."""
    CycleLease.objects.filter(id=1, holder=holder).update(until=now, **({"well_at": now} if well else {}))
