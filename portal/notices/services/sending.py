"""What mails and deliveries share: who may send now, who sends which, and when a failure is tried again.

Whatever is to be sent is claimed by one conditional UPDATE, sent, and marked as sent. Who is killed in between leaves a
claim that runs out: it is sent again, with the same id. So nothing is lost, and seldom something comes twice.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.db.models import F, Q

from portal.notices.models import Lane, Sending
from portal.notices.states import AHEAD, GIVE_UP_AFTER, SendingState

Row = TypeVar("Row", bound=Sending)

CLAIM = timedelta(seconds=120)
"""Longer than any one attempt takes: SMTP has eight steps of 10 s."""
FIRST_WAIT, LONGEST_WAIT, SPREAD = timedelta(seconds=5), timedelta(hours=3), 0.2
MOST_WAIT = LONGEST_WAIT * (1 + SPREAD)
LANE_LONGEST_WAIT = timedelta(minutes=5)
MOST_ERROR = 500

log = logging.getLogger(__name__)


def lane_take(name: str, *, now: datetime) -> bool:
    """Whether the caller may send on this way out now: nobody else does, and it is not known to be shut."""
    lane_make(name, now=now)
    free = _come("busy_until", CLAIM, now) & _come("not_before", LANE_LONGEST_WAIT, now)
    return bool(Lane.objects.filter(free, pk=name).update(busy_until=now + CLAIM))


def _come(column: str, longest: timedelta, now: datetime) -> Q:
    """That this moment, which is never set further ahead than ``longest``, has come. One that is was set by a wrong
    clock, and would stand for as long as that was ahead."""
    return Q(**{f"{column}__lte": now}) | Q(**{f"{column}__gt": now + longest + AHEAD})


def lane_make(name: str, *, now: datetime) -> None:
    """The lane's row, if it is not there yet."""
    Lane.objects.get_or_create(pk=name, defaults={"busy_until": now, "not_before": now})


def lane_leave(name: str, *, now: datetime) -> None:
    """The caller sends no more."""
    Lane.objects.filter(pk=name).update(busy_until=now)


def lane_shut(name: str, *, now: datetime) -> None:
    """The other end does not answer: nothing is tried for a while, longer each time."""
    Lane.objects.filter(pk=name).update(failures=F("failures") + 1)
    failures = Lane.objects.get(pk=name).failures
    wait = min(FIRST_WAIT * 2 ** min(failures - 1, 10), LANE_LONGEST_WAIT)
    Lane.objects.filter(pk=name).update(not_before=now + wait)


def lane_open(name: str) -> None:
    """The other end answers."""
    Lane.objects.filter(pk=name, failures__gt=0).update(failures=0)


def claim_next(model: type[Row], *, now: datetime) -> Row | None:
    """The one that has been due for longest, for the caller alone as long as ``CLAIM``; None: none is due, or another
    was quicker."""
    first, later = Q(attempts=0) & _come("next_try_at", timedelta(0), now), _come("next_try_at", MOST_WAIT, now)
    due = (first | later) & _come("claimed_until", CLAIM, now)
    row = model._default_manager.filter(due, state=SendingState.WAITING).order_by("next_try_at", "id").first()
    if row is None:
        return None
    mine = model._default_manager.filter(
        pk=row.pk, state=SendingState.WAITING, claimed_until=row.claimed_until, attempts=row.attempts
    )
    if not mine.update(claimed_until=now + CLAIM, attempts=F("attempts") + 1):
        return None
    row.attempts += 1
    return row


def attempt(row: Sending, send: Callable[[], bool], *, now: datetime, **columns: Any) -> bool:
    """Whether the next may be tried now: what ``send`` says. What it raises is this one's own failure: logged, tried
    again later, and in nobody else's way."""
    try:
        return send()
    except Exception as error:
        log.exception("%s %s failed by a fault of its own", type(row).__name__, row.key)
        sending_failed(row, error=error_words(error), now=now, **columns)
        return True


def error_words(error: Exception) -> str:
    """What went wrong, for the row's ``error``."""
    return f"{type(error).__name__}: {error}"


def sending_done(row: Sending, *, now: datetime, **columns: Any) -> None:
    """It was taken."""
    _set(row, state=SendingState.SENT, ended_at=now, error="", **columns)


def sending_refused(row: Sending, *, error: str, now: datetime, **columns: Any) -> None:
    """It will never be taken."""
    _set(row, state=SendingState.GIVEN_UP, ended_at=now, error=error[:MOST_ERROR], **columns)


def sending_failed(row: Sending, *, error: str, now: datetime, **columns: Any) -> None:
    """It was not taken: again after a while, longer each time, for a day."""
    wait = min(FIRST_WAIT * 3 ** min(row.attempts - 1, 10), LONGEST_WAIT) * random.uniform(1 - SPREAD, 1 + SPREAD)  # noqa: S311
    if now + wait - row.created_at > GIVE_UP_AFTER and row.attempts > 1:
        sending_refused(row, error=f"Given up after {row.attempts} attempts: {error}", now=now, **columns)
        return
    _set(row, next_try_at=now + wait, claimed_until=now, error=error[:MOST_ERROR], **columns)


def _set(row: Sending, **columns: Any) -> None:
    """Only of the caller's own attempt: where another took an overlong one over, that one decides."""
    type(row)._default_manager.filter(pk=row.pk, state=SendingState.WAITING, attempts=row.attempts).update(**columns)
