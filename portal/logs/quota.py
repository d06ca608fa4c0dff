"""Log quota of a virtual cluster: of its finished jobs, the newest keep their logs as far as the quota has room.

What counts is what was written, which bounds the disk space: the log's length (``archived_to``) without its gaps, which
a node may make as wide as it likes. Logs of unfinished jobs, or of jobs of which a server may still have something, are
never deleted and take no room from others.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet, Sum

from portal.jobs.models import Job, TaskAttempt
from portal.jobs.states import JOB_LIVE
from portal.logs.archive_store import Archive
from portal.teams.models import KeptLogs, VirtualCluster
from portal.teams.selectors.kept_logs import log_room

WRITTEN = Sum(F("archived_to") - F("archive_gaps"))

log = logging.getLogger(__name__)


def logs_count(*, now: datetime) -> None:
    """Sums up each virtual cluster's logs. A fixed number of queries."""
    over, live = _sums(_over(now)), sum(map(_sums, _live()), Counter[int]())
    # Not the default manager: it leaves out removed ones, whose jobs still have logs.
    every = VirtualCluster._base_manager.values_list("pk", flat=True)
    KeptLogs.objects.bulk_create(
        [KeptLogs(vc_id=vc, over=over[vc], live=live[vc], counted_at=now) for vc in every],
        update_conflicts=True, unique_fields=["vc"], update_fields=["over", "live", "counted_at"],
    )  # fmt: skip


def logs_give_way(*, archive: Archive, now: datetime) -> int:
    """Counts, then deletes in each virtual cluster what exceeds its quota. Safe in several processes at once. Returns
    the number of jobs whose logs were deleted."""
    logs_count(now=now)
    dropped = 0
    for kept in KeptLogs.objects.select_related("vc"):
        room = log_room(kept)
        if room.limit and room.over > room.limit:
            dropped += sum(_drop(job, archive, now) for job in _surplus(kept.vc_id, room.limit, now))
    if dropped:
        logs_count(now=now)
    return dropped


def _over(now: datetime) -> QuerySet[TaskAttempt]:
    """Runs of finished jobs with logs that may be deleted."""
    rows = TaskAttempt.objects.filter(
        removed_at__isnull=False, archived_to__gt=0, job_attempt__job__logs_dropped_at__isnull=True,
        job_attempt__job__ended_at__gte=now - timedelta(days=settings.LOG_RETENTION_DAYS),
    )  # fmt: skip
    return rows.exclude(job_attempt__job__in=_open_jobs())


def _live() -> Iterable[QuerySet[TaskAttempt]]:
    """Runs of all other jobs: unfinished ones, and finished ones that may get more."""
    kept = TaskAttempt.objects.filter(job_attempt__job__logs_dropped_at__isnull=True)
    live = Q(job_attempt__job__state__in=sorted(JOB_LIVE))
    return kept.filter(live), kept.filter(~live, job_attempt__job__in=_open_jobs())


def _open_jobs() -> QuerySet[TaskAttempt, int]:
    """Jobs of which a server has, or may have, a container: their logs may grow."""
    return TaskAttempt.objects.filter(removed_at__isnull=True).order_by().values_list("job_attempt__job", flat=True)


def _sums(rows: QuerySet[TaskAttempt]) -> Counter[int]:
    """Bytes written, by virtual cluster."""
    sums = rows.order_by().values_list("job_attempt__job__vc").annotate(size=WRITTEN)
    return Counter(dict(sums))


def _surplus(vc: int, limit: int, now: datetime) -> list[int]:
    """The jobs whose logs must go, the longest ended first. One query, so that no concurrent deletion comes between the
    sum and the choice.

    1. A log larger than the whole quota goes: it would take all others with it, and still not fit.
    2. Of the rest the newest stay, as long as they fit together; all that ended before goes.
    """
    ended = _over(now).filter(job_attempt__job__vc=vc).values_list("job_attempt__job").annotate(size=WRITTEN)
    newest_first = ended.order_by("-job_attempt__job__ended_at", "-job_attempt__job")
    going, taken, full = list[int](), 0, False
    with transaction.atomic():  # iterator() needs one: there may be three months of jobs
        for job, size in newest_first.iterator(chunk_size=10_000):
            full = full or (size <= limit < taken + size)
            if full or size > limit:
                going.append(job)
            else:
                taken += size
    return going[::-1]


def _drop(job: int, archive: Archive, now: datetime) -> bool:
    """Marks the job's logs as deleted, then deletes them: if killed in between, ``logs_expire`` deletes the rest later.
    False if somebody was first."""
    with transaction.atomic():
        mine = Job.objects.filter(pk=job, logs_dropped_at__isnull=True).update(logs_dropped_at=now)
    if mine:
        for attempt in TaskAttempt.objects.filter(job_attempt__job=job).values_list("pk", flat=True):
            archive.remove(str(attempt))
        log.info("logs of job %s deleted: its virtual cluster keeps no more than its quota", job)
    return bool(mine)
