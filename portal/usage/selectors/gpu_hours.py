"""GPU time by day, virtual cluster, user and SKU: held, from allocations; used, from readings; lost, from ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import NamedTuple
from uuid import UUID

from django.db.models import Count, Q

from nodes.protocol.states import Cause, StopReason
from portal.common.bulk import keys_listed
from portal.jobs.models import Allocation, Standing, TaskAttempt
from portal.jobs.states import EndReason
from portal.usage.models import Measured

DAY = timedelta(days=1)
TAKEN_AWAY = frozenset({StopReason.PREEMPTED, StopReason.DRAINED, StopReason.LOST})
"""Stops that cost a task its unsaved work."""
TAKEN_FROM_THE_GANG = frozenset({EndReason.PREEMPTED, EndReason.DRAINED, EndReason.NODE_LOST})


class UsageKey(NamedTuple):
    """The day and row ids that a sum is for."""

    day: date
    vc_id: int
    user_id: int
    sku_id: int


@dataclass(slots=True)
class UsageSums:
    """GPU milliseconds: held inside the quota and beyond it, of the latter by extra tasks of elastic jobs (grown); of
    these with readings, used (times utilisation), idle; and work lost when GPUs were taken away."""

    guaranteed_ms: int = 0
    opportunistic_ms: int = 0
    grown_ms: int = 0
    measured_ms: int = 0
    used_ms: int = 0
    idle_ms: int = 0
    wasted_ms: int = 0

    def add(self, other: UsageSums) -> None:
        """Adds the other's sums to these."""
        # Written out for speed: a report adds up thousands.
        self.guaranteed_ms += other.guaranteed_ms
        self.opportunistic_ms += other.opportunistic_ms
        self.grown_ms += other.grown_ms
        self.measured_ms += other.measured_ms
        self.used_ms += other.used_ms
        self.idle_ms += other.idle_ms
        self.wasted_ms += other.wasted_ms

    def __bool__(self) -> bool:
        return any(astuple(self))


class _Run(NamedTuple):
    """A task attempt: whose it is, and how it ended."""

    job_attempt: int
    vc_id: int
    user_id: int
    gang: bool
    end_reason: str
    stop_reason: str
    cause: str
    exit_code: int | None
    started_at: datetime | None
    checkpoint_at: datetime | None
    lost_at: datetime | None
    task_index: int
    least: int | None

    @property
    def extra(self) -> bool:
        return self.least is not None and self.task_index >= self.least


OF_JOB = "job_attempt__job__"
"""Lookup path from a task attempt to its job."""
_RUN = (
    *("pk", "job_attempt", f"{OF_JOB}vc", f"{OF_JOB}user", f"{OF_JOB}gang", "job_attempt__end_reason", "stop_reason"),
    *("cause", "exit_code", "started_at", "checkpoint_at", "lost_at", "task__index", "task__role__least"),
)
_HOLD = ("task_attempt", "leaf__cell_type__sku", "standing", "turns", "created_at", "released_at")


class _Held(NamedTuple):
    """GPUs of a task attempt that were held over the same time by the same rights."""

    task_attempt: UUID
    sku_id: int
    standing: str
    turns: str
    created_at: datetime
    released_at: datetime | None
    gpus: int
    run: _Run


def usage_of_days(*, first: date, last: date, now: datetime) -> dict[UsageKey, UsageSums]:
    """GPU time held and used on these days (UTC, both included) until ``now``. Three queries."""
    held = _held(first, last)
    found: dict[UsageKey, UsageSums] = defaultdict(UsageSums)
    for key, sums in (
        *_time_held(held, first, last, now),
        *_time_lost(held, first, last),
        *_measured(held, first, last),
    ):
        found[key].add(sums)
    return {key: sums for key, sums in found.items() if sums}


def _held(first: date, last: date) -> list[_Held]:
    """Reads the GPUs first, then whose they are: a database cannot know that few of those that began before a time
    ended after another, and would read every job to join them."""
    begin, end = _begin(first), _begin(last + DAY)
    rows = Allocation.objects.filter(created_at__lt=end)
    rows = rows.filter(Q(released_at__isnull=True) | Q(released_at__gte=begin))
    holds = list(rows.order_by().values_list(*_HOLD).annotate(gpus=Count("pk")))
    ids = keys_listed(TaskAttempt, {key for key, *_ in holds})
    runs = TaskAttempt.objects.filter(pk__in=ids).order_by().values_list(*_RUN)
    known = {key: _Run(*columns) for key, *columns in runs}
    return [_Held._make((*row, known[row[0]])) for row in holds if row[0] in known]


def _begin(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)


def _ms(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)


def _key(one: _Held, day: date) -> UsageKey:
    return UsageKey(day, one.run.vc_id, one.run.user_id, one.sku_id)


# ---------------------------------------------------------------- held


def _time_held(held: Iterable[_Held], first: date, last: date, now: datetime) -> Iterator[tuple[UsageKey, UsageSums]]:
    for one in held:
        # A lost node's GPU is charged to nobody, though it is not seen free until the node is back.
        end = min(filter(None, [one.released_at, one.run.lost_at, now]))
        turns = [min(datetime.fromisoformat(turn), end) for turn in one.turns.split()]
        # Each turn flipped the right; the row has the last one.
        borrowed = (one.standing == Standing.BORROWED) ^ bool(len(turns) % 2)
        for begin, until in pairwise([one.created_at, *turns, end]):
            for day, span in _by_day(begin, until, first, last):
                amount = one.gpus * _ms(span)
                grown = amount if one.run.extra else 0
                yield _key(one, day), UsageSums(0, amount, grown) if borrowed else UsageSums(amount)
            borrowed = not borrowed


def _by_day(begin: datetime, end: datetime, first: date, last: date) -> Iterator[tuple[date, timedelta]]:
    """Splits a time span by these days."""
    day = max(first, begin.astimezone(UTC).date())
    while day <= last and _begin(day) < end:
        yield day, min(end, _begin(day + DAY)) - max(begin, _begin(day))
        day += DAY


# ---------------------------------------------------------------- lost


def _time_lost(held: list[_Held], first: date, last: date) -> Iterator[tuple[UsageKey, UsageSums]]:
    """Work since the last checkpoint of what was taken away, on the day that it was, so that past days stay as they
    are."""
    saved = _saved(one.run for one in held)
    for one in held:
        run, lost = one.run, one.run.lost_at or one.released_at
        if lost is None or not first <= lost.astimezone(UTC).date() <= last or not _taken_away(run):
            continue
        kept = saved.get(run.job_attempt) if run.gang else run.checkpoint_at
        begun = max(one.created_at, run.started_at or lost, kept or one.created_at)
        yield _key(one, lost.astimezone(UTC).date()), UsageSums(wasted_ms=one.gpus * max(0, _ms(lost - begun)))


def _saved(runs: Iterable[_Run]) -> Mapping[int, datetime]:
    """When job attempts last saved their work: of a gang, by any of its tasks."""
    found: dict[int, datetime] = {}
    for one in runs:
        if one.checkpoint_at:
            found[one.job_attempt] = max(found.get(one.job_attempt, one.checkpoint_at), one.checkpoint_at)
    return found


def _taken_away(one: _Run) -> bool:
    if (one.cause, one.exit_code) == (Cause.EXITED, 0):
        return False
    with_its_gang = one.stop_reason == StopReason.SIBLING and one.end_reason in TAKEN_FROM_THE_GANG
    return one.stop_reason in TAKEN_AWAY or with_its_gang


# ---------------------------------------------------------------- measured


def _measured(held: Iterable[_Held], first: date, last: date) -> Iterator[tuple[UsageKey, UsageSums]]:
    whose = {one.task_attempt: one for one in held}
    rows = Measured.objects.filter(day__gte=first, day__lte=last).order_by()
    for key, day, measured, used, idle in rows.values_list("task_attempt", "day", "measured_ms", "used_ms", "idle_ms"):
        if key in whose:
            yield _key(whose[key], day), UsageSums(measured_ms=measured, used_ms=used, idle_ms=idle)
