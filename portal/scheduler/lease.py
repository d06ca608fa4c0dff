"""The cycle's lease: a row with holder and end. Any database, any number of schedulers."""

from __future__ import annotations

import os
import secrets
import socket
from datetime import datetime, timedelta

from django.db.models import Case, F, Q, Value, When

from portal.scheduler.models import CycleLease


def holder_new() -> str:
    """A name that no other scheduler has: across machines and containers, where each is process 1 and host names may
    coincide."""
    return f"{socket.gethostname()[:60]}:{os.getpid()}:{secrets.token_hex(8)}"


def lease_take(*, holder: str, now: datetime, seconds: int) -> bool:
    """Take or prolong the lease; False while another holder's has not run out.

    If no cycle under it has gone well yet (after an installation or a restore), or only at a future time (the clock was
    corrected), ``well_at`` starts now: otherwise cycles that fail from now on would not be reported
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
    """Filter for a lease that is in force, taken for so many seconds at a time. An end further ahead was written by a
    clock since corrected; twice as long is accepted, since clocks differ."""
    return Q(until__gt=now, until__lte=now + timedelta(seconds=2 * seconds))


def lease_release(*, holder: str, now: datetime, well: bool) -> None:
    """Release it after a cycle, so that another scheduler may go on at once. ``well``: the cycle finished and could do
    what it decided."""
    CycleLease.objects.filter(id=1, holder=holder).update(until=now, **({"well_at": now} if well else {}))
