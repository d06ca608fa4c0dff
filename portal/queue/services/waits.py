"""Stores why jobs wait: at once when the reason changes, else once a minute, a share of the jobs at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import nsmallest
from typing import Any, NamedTuple

from django.db import transaction

from portal.common.bulk import rows_update
from portal.common.live import announce
from portal.common.prepared import Among, Prepared
from portal.jobs.models import Job, JobEvent
from portal.jobs.services.transitions import jobs_announce
from portal.jobs.states import OWNER_GONE, JobState
from portal.jobs.wordings import HELD

REASON_REWRITE = timedelta(minutes=1)
MOST_CHANGED = 500
"""Changed reasons that one cycle stores; the rest is left to the next cycles."""

LEAST_STALE = 100
STALE_CYCLES = 50
"""Cycles of a second over which reasons older than a minute are rewritten, so that many jobs do not come due in one,
and each is refreshed about once a minute."""

ANNOUNCED_SINGLY = 50
"""With more changed reasons, open pages are told once that the queue moved."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a job waits, according to the plan."""

    job_id: int
    code: str
    message: str
    numbers: dict[str, Any] = field(default_factory=dict)


class Told(NamedTuple):
    """The stored reason of a waiting job: its code, when written (ms since 1970), and the end of the job's pause
    then."""

    code: str
    written_ms: int | None
    paused_until: datetime | None = None

    def speaks_of_a_pause_that_is_over(self, now: datetime) -> bool:
        """Whether it was written during a pause that has ended."""
        until, written_ms = self.paused_until, self.written_ms
        return until is not None and written_ms is not None and written_ms < until.timestamp() * 1000 and until <= now


def waits_due(*, codes: Mapping[int, str], told: Mapping[int, Told], now: datetime) -> set[int]:
    """Waiting jobs whose reason is to be stored, given today's codes by row id: first those whose code has changed or
    whose pause has ended, in their order, then those stored longest ago."""
    before = int((now - REASON_REWRITE).timestamp() * 1000)
    changed, old = [], []
    for job, code in codes.items():
        if (last := told.get(job)) is None:
            continue
        if last.code != code or last.speaks_of_a_pause_that_is_over(now):
            changed.append(job)
        if last.written_ms is not None and last.written_ms <= before:
            old.append((last.written_ms, job))
    share = max(LEAST_STALE, len(codes) // STALE_CYCLES)
    return {*changed[:MOST_CHANGED], *(job for _, job in nsmallest(share, old))}


def waits_write(*, waits: Iterable[Waiting], now: datetime) -> int:
    """Stores these reasons of waiting jobs; returns how many changed."""
    by_id = {wait.job_id: wait for wait in waits}
    if not by_id:
        return 0
    with transaction.atomic():
        changed = _store(by_id, now)
        if len(changed) <= ANNOUNCED_SINGLY:
            jobs_announce(Job(id=job, vc_id=vc, user_id=user) for job, vc, user in changed)
        if changed:
            transaction.on_commit(lambda: announce("queue", {}))
    return len(changed)


def _store(waits: Mapping[int, Waiting], now: datetime) -> list[tuple[int, int, int]]:
    """The jobs (with virtual cluster and user) whose reason changed."""
    # Locked in id order, like everywhere.
    found = _WAITING(jobs=waits)
    new = [waits[job] for job, *_ in found]
    rows_update(
        Job,
        ("waiting_code", "waiting_message", "waiting_numbers"),
        [(wait.job_id, wait.code, wait.message, wait.numbers) for wait in new],
        every={"waiting_written_at": now},
        only={"state": JobState.WAITING},
    )
    _held_tell({job: wait.message for (job, *_, code, _), wait in zip(found, new, strict=True)
                if code != wait.code == OWNER_GONE}, now)  # fmt: skip
    return [
        (job, vc, user)
        for (job, vc, user, *said), wait in zip(found, new, strict=True)
        if said != [wait.code, wait.message]
    ]


_WAITING = Prepared(
    lambda: (
        Job.objects.select_for_update(no_key=True)
        .filter(Among("id", "jobs"), state=JobState.WAITING)
        .order_by("pk")
        .values_list("id", "vc_id", "user_id", "waiting_code", "waiting_message")
    )
)


def _held_tell(why: Mapping[int, str], now: datetime) -> None:
    """Adds events for jobs held from now on because their owners are gone; leads are notified of them."""
    JobEvent.objects.bulk_create(
        JobEvent(job_id=job, at=now, code="owner_gone", data=HELD(why=words).stored()) for job, words in why.items()
    )
