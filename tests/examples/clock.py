"""A clock that goes only when it is told to, so that the same scene has the same times."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from portal.accounts.models import User


@dataclass
class Clock:
    """What Django and the system say that it is."""

    now: datetime = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)

    def go(self, **by: float) -> datetime:
        """So much later."""
        self.now += timedelta(**by)
        return self.now


@contextmanager
def stopped() -> Iterator[Clock]:
    """The clock of this process, stopped."""
    clock = Clock()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(timezone, "now", lambda: clock.now)
        patched.setattr(User._meta.get_field("date_joined"), "_get_default", lambda: clock.now)  # it knows its own
        patched.setattr(time, "time", lambda: clock.now.timestamp())
        patched.setattr(time, "time_ns", lambda: int(clock.now.timestamp() * 1e9))
        yield clock
