"""The cycle's lease: a row with holder and end. Any database, any number of schedulers."""

from __future__ import annotations

import os
import secrets
import socket
from datetime import datetime, timedelta
from functools import cache

from django.db.models import Q, Value
from django.db.models.functions import Coalesce

from portal.dispatch.models import CycleLease


@cache
def holder_own() -> str:
    """This process among all schedulers: on several machines, and in containers, where each is process 1, under host
    names that may be the same."""
    return f"{socket.gethostname()[:60]}:{os.getpid()}:{secrets.token_hex(8)}"


def lease_take(*, holder: str, now: datetime, seconds: int) -> bool:
    """Take or prolong the lease; False while another holder's has not run out.

    Who takes one under which no cycle went well, as after an installation or a restore, counts from now: cycles that
    fail from the first on would else never be told of (``queue_standing``).
    """
    CycleLease.objects.get_or_create(id=1, defaults={"holder": "", "until": now})
    free = Q(holder=holder) | Q(until__lte=now)
    taken = CycleLease.objects.filter(free, id=1).update(
        holder=holder, until=now + timedelta(seconds=seconds), well_at=Coalesce("well_at", Value(now))
    )
    return bool(taken)


def lease_release(*, holder: str, now: datetime, well: bool) -> None:
    """Give it back at the end of a cycle, so that another scheduler may go on at once. ``well``: the cycle came to its
    end and could do what it decided."""
    CycleLease.objects.filter(id=1, holder=holder).update(until=now, **({"well_at": now} if well else {}))
