"""The cycle's lease: a row with holder and end. Any database, any number of schedulers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import Q

from portal.dispatch.models import CycleLease


def lease_take(*, holder: str, now: datetime, seconds: int) -> bool:
    """Take or prolong the lease; False while another holder's has not run out."""
    with _soon_stored():
        CycleLease.objects.get_or_create(id=1, defaults={"holder": "", "until": now})
        free = Q(holder=holder) | Q(until__lte=now)
        taken = CycleLease.objects.filter(free, id=1).update(holder=holder, until=now + timedelta(seconds=seconds))
        return bool(taken)


def lease_release(*, holder: str, now: datetime) -> None:
    """Give it back at the end of a cycle, so that another scheduler may go on at once."""
    with _soon_stored():
        CycleLease.objects.filter(id=1, holder=holder).update(until=now)


@contextmanager
def _soon_stored() -> Iterator[None]:
    """A transaction that does not wait for the disk: a lease that is lost in a crash costs one cycle's work at most."""
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL synchronous_commit TO OFF")
        yield
