"""The curves of a task attempt: its record, and what has been read since."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from redis import Redis, RedisError

from portal.common.samples import readings
from portal.jobs.models import TaskAttempt
from portal.metrics.points import BUCKET_S, OF_GPU, OF_TASK, SOME_TELL, Band, Metric, Point, coarsened, points_of
from portal.metrics.record import Records

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GpuOf:
    """A GPU that a task attempt holds or held; ``index``: as its node counts."""

    index: int
    uuid: str


@dataclass(frozen=True, slots=True)
class Series:
    """One curve, a band for each point."""

    metric: Metric
    gpu: GpuOf | None
    bands: list[Band | None]


@dataclass(frozen=True, slots=True)
class Curves:
    """Curves over the same points: where each begins (seconds since 1970) and how many seconds it lasts."""

    times: list[int]
    seconds: list[int]
    series: list[Series]


@dataclass(frozen=True, slots=True)
class CurveReader:
    """``records`` is shared by all processes; ``redis`` holds the newest readings."""

    records: Records
    redis: Redis

    def read(
        self,
        row: TaskAttempt,
        *,
        first: datetime | None = None,
        end: datetime | None = None,
        step: int = BUCKET_S,
        gpu: int | None = None,
    ) -> Curves:
        """The curves from ``first`` on and before ``end`` in points of at least ``step`` seconds; of one GPU (by index)
        where ``gpu`` names it. Needs the node loaded. One query. Without Redis the newest minutes are missing."""
        held = row.allocations.order_by("leaf__uuid").values_list("leaf__index", "leaf__uuid").distinct()
        gpus = [GpuOf(*one) for one in held]
        points = self.records.read(str(row.pk))
        points += self._newest(row, gpus, points)
        # A file that is not as we left it shows less, and breaks nothing.
        width = len(OF_TASK) + len(gpus) * len(OF_GPU)
        span = [point for point in points if len(point.bands) == width and _within(point, first, end)]
        return _curves(coarsened(span, step), gpus, gpu)

    def _newest(self, row: TaskAttempt, gpus: Sequence[GpuOf], known: Sequence[Point]) -> list[Point]:
        """Points that are in no record yet."""
        first = known[-1].at + known[-1].seconds if known else 0
        try:
            ((_, kept),) = readings(
                redis=self.redis, nodes=[row.node.name], first_ms=first * 1000, end_ms=(1 << 63) - 1
            )
        except RedisError as error:
            log.warning("newest samples of %s cannot be read: %s", row.pk, error)
            return []
        own = [(one.at_ms, task) for one in kept for task in one.tasks if task.attempt == row.pk]
        return points_of(own, [one.uuid for one in gpus], since=row.created_at)


def _within(point: Point, first: datetime | None, end: datetime | None) -> bool:
    late_enough = first is None or point.at + point.seconds > first.timestamp()
    return late_enough and (end is None or point.at < end.timestamp())


def _curves(points: Sequence[Point], gpus: Sequence[GpuOf], wanted: int | None) -> Curves:
    columns: list[tuple[Metric, GpuOf | None]] = [(metric, None) for metric in OF_TASK]
    columns += [(metric, one) for one in gpus for metric in OF_GPU]
    series = [
        Series(metric, one, [point.bands[number] for point in points])
        for number, (metric, one) in enumerate(columns)
        if one is None or wanted is None or one.index == wanted
    ]
    series = [one for one in series if one.metric not in SOME_TELL or any(one.bands)]
    series.sort(key=lambda one: one.gpu.index if one.gpu else -1)
    return Curves([point.at for point in points], [point.seconds for point in points], series)
