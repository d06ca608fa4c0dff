"""Each minute that is over is folded once: its readings go into the records of the task attempts that they are of, and
their sums into ``Measured``."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import fmean
from uuid import UUID

from django.conf import settings
from django.db import transaction
from redis import Redis

from portal.common.bulk import keys_listed, rows_add
from portal.common.samples import MINUTES_KEPT, TaskReading, readings, readings_expire
from portal.hardware.models import Node
from portal.idle.activity import GpuMinute
from portal.idle.hangs import StepMinute, steps_watch
from portal.idle.minutes import activities_add
from portal.jobs.models import Allocation, TaskAttempt
from portal.metrics.points import OF_GPU, OF_TASK, POWER, SM_ACTIVE, Metric, Point, points_of
from portal.metrics.record import Records
from portal.usage.models import Measured
from portal.usage.services.progress import usage_progress, usage_progress_fold

MINUTE = timedelta(minutes=1)
LATE = timedelta(seconds=40)
"""A report may take so long to come."""
AHEAD = timedelta(minutes=1)
"""So far another worker's clock may be ahead; what is folded beyond was said by one that was wrong."""
LOCK = "berth:portal:folding"
LOCK_S = 120
NODES_AT_ONCE = 128

log = logging.getLogger(__name__)


def samples_fold(*, now: datetime, redis: Redis, records: Records) -> int:
    """Folds the minutes that are over and not folded yet; how many. Minutes whose readings have gone are left out.

    Any number of processes may call it: a lock keeps them from doing work twice, and the conditional move of
    ``UsageProgress.folded_to`` decides whose sums count. Raises redis.RedisError, and OSError where no record can be
    written; then the minute comes again, as long as its readings are kept.
    """
    lock = redis.lock(LOCK, timeout=LOCK_S)
    if not lock.acquire(blocking=False):
        return 0
    try:
        count = 0
        while (minute := _due(now)) is not None:
            lock.reacquire()
            if not _fold(minute, redis, records, now):
                break
            count += 1
        return count
    finally:
        if lock.owned():
            lock.release()


def _due(now: datetime) -> datetime | None:
    """The next minute to fold."""
    folded_to = usage_progress(now=now).folded_to
    this_minute = now.replace(second=0, microsecond=0)
    if folded_to > now + AHEAD and usage_progress_fold(old=folded_to, new=this_minute):
        log.warning("readings were folded up to %s by a clock that was ahead; it goes on from now", folded_to)
        folded_to = this_minute
    oldest = this_minute - timedelta(minutes=MINUTES_KEPT)
    if folded_to < oldest and usage_progress_fold(old=folded_to, new=oldest):
        log.warning("readings from %s to %s were not kept", folded_to, oldest)
        folded_to = oldest
    return folded_to if folded_to + MINUTE + LATE <= now else None


_Told = Mapping[tuple[str, UUID], list[tuple[int, TaskReading]]]
"""What each node told of each task attempt in a minute, whosever it is."""


def _fold(minute: datetime, redis: Redis, records: Records, now: datetime) -> bool:
    told = _read(minute, redis)
    runs = _runs(told)
    used = {run.row.pk: _gpus(run) for run in runs}
    stepping = {run.row.pk: one for run in runs if (one := _steps(run, used[run.row.pk])) is not None}
    sums = [sums for run in runs if (sums := _sums(run, used[run.row.pk], minute)) is not None]
    _record(minute, runs, records)
    with transaction.atomic():
        if not usage_progress_fold(old=minute, new=minute + MINUTE):
            return False
        activities_add(minute=minute, told=used)
        steps_watch(minute=minute, told=stepping, now=now)
        if sums:
            rows_add(Measured, ("day", "task_attempt_id"), ("measured_ms", "used_ms", "idle_ms"), sorted(sums))
    return True


def _record(minute: datetime, runs: Sequence[_Run], records: Records) -> None:
    """A record that cannot be written keeps neither another one nor the sums back. Raises OSError where none can be:
    that is the disk, and may pass."""
    failed: list[OSError] = []
    for run in runs:
        age_s = int((minute - run.row.created_at).total_seconds())
        try:
            records.add(str(run.row.pk), run.points, age_s=age_s, over=run.row.released_at is not None)
        except OSError as error:
            log.error("record of %s lacks the minute of %s: %s", run.row.pk, minute.isoformat(), error)
            failed.append(error)
    if failed and len(failed) == len(runs):
        raise failed[0]


def _read(minute: datetime, redis: Redis) -> _Told:
    first = int(minute.timestamp() * 1000)
    alive = Node.objects.filter(last_report_at__gte=minute).order_by("name")
    nodes = list(alive.values_list("name", flat=True))
    found: dict[tuple[str, UUID], list[tuple[int, TaskReading]]] = defaultdict(list)
    for start in range(0, len(nodes), NODES_AT_ONCE):
        some = nodes[start : start + NODES_AT_ONCE]
        for node, kept in readings(redis=redis, nodes=some, first_ms=first, end_ms=first + 60_000):
            for one in kept:
                for task in one.tasks:
                    found[node, task.attempt].append((one.at_ms, task))
        readings_expire(redis=redis, nodes=some)
    return found


@dataclass(frozen=True, slots=True)
class _Run:
    """A task attempt's minute."""

    row: TaskAttempt
    gpus: int
    points: list[Point]
    newest: TaskReading


def _runs(told: _Told) -> list[_Run]:
    """Only what a node tells of its own task attempts counts. Two queries."""
    columns = ("node__name", "created_at", "released_at", "lost_at")
    ids = keys_listed(TaskAttempt, {attempt for _, attempt in told})
    rows = TaskAttempt.objects.filter(pk__in=ids).select_related("node").only(*columns)
    gpus: dict[UUID, list[str]] = defaultdict(list)
    held = Allocation.objects.filter(task_attempt__in=ids).order_by("leaf__uuid")
    for key, uuid in held.values_list("task_attempt", "leaf__uuid").distinct():
        gpus[key].append(uuid)
    own = [(row, of_it) for row in rows if (of_it := told.get((row.node.name, row.pk)))]
    found = [(row, points_of(of_it, gpus[row.pk], since=row.created_at), of_it[-1][1]) for row, of_it in own]
    return [_Run(row, len(gpus[row.pk]), points, newest) for row, points, newest in found if points]


Sums = tuple[str, UUID, int, int, int]
"""Day, task attempt, and milliseconds measured, used and idle."""


def _gpus(run: _Run) -> list[GpuMinute]:
    """What each of its GPUs did, as far as the task attempt held them."""
    spans = [_held_ms(run.row, point) for point in run.points]
    found = []
    for gpu in range(run.gpus):
        column = len(OF_TASK) + gpu * len(OF_GPU)
        means = [
            (band[0], span) for point, span in zip(run.points, spans, strict=True) if (band := point.bands[column])
        ]
        measured = sum(span for _, span in means)
        found.append(GpuMinute(measured, sum(mean * span for mean, span in means) / measured if measured else 0))
    return found


def _steps(run: _Run, gpus: Sequence[GpuMinute]) -> StepMinute | None:
    """None for what tells no steps, or holds no GPUs that tell their power."""
    steps, watts = run.newest.steps, [sum(told) for told in _told(run, POWER)]
    if steps is None or steps.step is None or steps.step_ms is None or not gpus or not watts:
        return None
    least, active = min(gpu.mean for gpu in gpus), [fmean(told) for told in _told(run, SM_ACTIVE)]
    return StepMinute(
        steps.step, steps.step_ms, run.newest.log_end, least, fmean(watts), fmean(active) if active else None
    )


def _told(run: _Run, metric: Metric) -> Iterator[list[float]]:
    """Of each point that has any, the means of its GPUs."""
    first = len(OF_TASK) + OF_GPU.index(metric)
    bands = ([band[0] for band in point.bands[first :: len(OF_GPU)] if band] for point in run.points)
    return filter(None, bands)


def _sums(run: _Run, gpus: Sequence[GpuMinute], minute: datetime) -> Sums | None:
    """Of all its GPUs together; None where no GPU told its utilisation."""
    measured_ms = sum(gpu.told_ms for gpu in gpus)
    used_ms = sum(round(gpu.mean / 100 * gpu.told_ms) for gpu in gpus)
    idle_ms = sum(gpu.told_ms for gpu in gpus if gpu.mean < settings.IDLE_PERCENT)
    day = minute.astimezone(UTC).date().isoformat()
    return (day, run.row.pk, measured_ms, used_ms, idle_ms) if measured_ms else None


def _held_ms(row: TaskAttempt, point: Point) -> int:
    end = min(filter(None, [row.released_at, row.lost_at]), default=None)
    first = max(point.at * 1000, int(row.created_at.timestamp() * 1000))
    last = (point.at + point.seconds) * 1000
    return max(0, min(last, int(end.timestamp() * 1000) if end else last) - first)
