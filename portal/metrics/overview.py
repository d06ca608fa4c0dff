"""Curves for people: of one task a line for each GPU, of many tasks a line for each task, never more points than a
screen shows."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from math import ceil
from pathlib import Path
from uuid import UUID

from redis import Redis, RedisError

from portal.common.samples import TaskReading, readings
from portal.jobs.models import Allocation, TaskAttempt
from portal.metrics.points import BUCKET_S, OF_GPU, OF_TASK, Band, Point, coarsened, points_of
from portal.metrics.record import Records

log = logging.getLogger(__name__)

MOST_POINTS = 240
"""Of one line."""
LEAST_POINTS = 40
MOST_VALUES = 4000
"""Of all lines of a chart together, as long as each has its ``LEAST_POINTS``."""
MOST_TASKS = 100
WIDTH = len(OF_TASK) + len(OF_GPU)
SUMMED = frozenset({"gpu_memory", "gpu_power"})
"""Of a task's GPUs together; of the others their mean is told."""
RECORDS_CACHED = 1024


@dataclass(frozen=True, slots=True)
class Window:
    """What part of a run is looked at, in seconds since 1970, in points of ``step`` seconds at least."""

    first: int
    end: int
    step: int


def window_of(rows: Sequence[TaskAttempt], *, now: datetime, chosen: tuple[int, int] | None = None) -> Window:
    """From the first start of these (at least one) to the last end, or to now; or the part that somebody chose of it.
    The more lines there are, the fewer points each has."""
    first = int(min(row.created_at for row in rows).timestamp())
    end = ceil(max(row.released_at or now for row in rows).timestamp())
    if chosen:
        first, end = max(first, chosen[0]), min(end, chosen[1])
    end = max(end, first + BUCKET_S)
    most = max(LEAST_POINTS, min(MOST_POINTS, MOST_VALUES // len(rows)))
    return Window(first, end, _step((end - first) / most))


def _step(least: float) -> int:
    """Ten, twenty, thirty seconds, or a minute doubled as often as needed, so that steps divide one another."""
    for step in (BUCKET_S, 2 * BUCKET_S, 3 * BUCKET_S):
        if step >= least:
            return step
    step = 60
    while step < least:
        step *= 2
    return step


@dataclass(frozen=True, slots=True)
class TaskCurves:
    """A task attempt's points: of each ``OF_TASK``, then of each ``OF_GPU`` over all of its GPUs. ``gpus``: how
    many."""

    row: TaskAttempt
    gpus: int
    points: list[Point]


def task_curves(rows: Sequence[TaskAttempt], window: Window, *, records: Records, redis: Redis) -> list[TaskCurves]:
    """Each with what its record and the newest readings have in the window. Needs the nodes loaded. One query; without
    Redis the newest minutes are missing."""
    uuids = _uuids(rows)
    known = {row.pk: _recorded(records, row, len(uuids[row.pk]), window.step) for row in rows}
    still_open = [row for row in rows if not records.packed(str(row.pk)).exists()]
    newest = _newest(still_open, uuids, known, redis)
    return [
        TaskCurves(row, len(uuids[row.pk]), _within([*known[row.pk], *newest.get(row.pk, [])], window)) for row in rows
    ]


def _uuids(rows: Sequence[TaskAttempt]) -> Mapping[UUID, list[str]]:
    found: dict[UUID, list[str]] = defaultdict(list)
    held = Allocation.objects.filter(task_attempt__in=[row.pk for row in rows]).order_by("leaf__uuid")
    for key, uuid in held.values_list("task_attempt", "leaf__uuid").distinct():
        found[key].append(uuid)
    return found


def _recorded(records: Records, row: TaskAttempt, gpus: int, step: int) -> tuple[Point, ...]:
    marks = record_marks(records, row)
    return _summed(records, str(row.pk), marks, gpus, step) if marks else ()


def record_marks(records: Records, row: TaskAttempt) -> tuple[tuple[int, int] | None, ...]:
    """What changes when somebody writes the record of a task attempt; empty where there is none."""
    marks = tuple(_mark(path(str(row.pk))) for path in (records.packed, records.path))
    return marks if any(marks) else ()


def _mark(path: Path) -> tuple[int, int] | None:
    """What changes when somebody writes the file; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=RECORDS_CACHED)
def _summed(records: Records, attempt: str, marks: object, gpus: int, step: int) -> tuple[Point, ...]:
    """A record changes once a minute at most, and many may look at a job: it is read again when its ``marks``
    change."""
    return tuple(coarsened(_over_gpus(records.read(attempt), gpus), step))


def _over_gpus(points: Iterable[Point], gpus: int) -> list[Point]:
    """Each with its GPUs as one. A file that is not as we left it shows less, and breaks nothing."""
    width = len(OF_TASK) + gpus * len(OF_GPU)
    return [
        point._replace(bands=[*point.bands[: len(OF_TASK)], *_gpu_bands(point)])
        for point in points
        if len(point.bands) == width
    ]


def _gpu_bands(point: Point) -> list[Band | None]:
    found: list[Band | None] = []
    for place, metric in enumerate(OF_GPU):
        told = [band for band in point.bands[len(OF_TASK) + place :: len(OF_GPU)] if band is not None]
        count = 1 if metric.name in SUMMED else len(told)
        sums = [sum(band[part] for band in told) / count for part in range(3)] if told else None
        found.append((round(sums[0], 1), round(sums[1], 1), round(sums[2], 1)) if sums else None)
    return found


def _newest(
    rows: Sequence[TaskAttempt], uuids: Mapping[UUID, list[str]], known: Mapping[UUID, Sequence[Point]], redis: Redis
) -> dict[UUID, list[Point]]:
    """Points that are in no record yet. One request to Redis."""
    if not rows:
        return {}
    since = {row.pk: _end_of(known[row.pk]) for row in rows}
    nodes = {row.pk: row.node.name for row in rows}
    told: dict[UUID, list[tuple[int, TaskReading]]] = defaultdict(list)
    try:
        first_ms, end_ms = min(since.values()) * 1000, (1 << 63) - 1
        for node, kept in readings(redis=redis, nodes=sorted(set(nodes.values())), first_ms=first_ms, end_ms=end_ms):
            for at_ms, task in ((one.at_ms, task) for one in kept for task in one.tasks):
                if nodes.get(task.attempt) == node and at_ms >= since[task.attempt] * 1000:
                    told[task.attempt].append((at_ms, task))
    except RedisError as error:
        log.warning("newest samples cannot be read: %s", error)
    made = {row.pk: points_of(told[row.pk], uuids[row.pk], since=row.created_at) for row in rows}
    return {key: _over_gpus(points, len(uuids[key])) for key, points in made.items()}


def _end_of(points: Sequence[Point]) -> int:
    return points[-1].at + points[-1].seconds if points else 0


def _within(points: Sequence[Point], window: Window) -> list[Point]:
    inside = [point for point in points if point.at + point.seconds > window.first and point.at < window.end]
    return coarsened(inside, window.step)
