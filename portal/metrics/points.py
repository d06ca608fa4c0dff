"""Readings as points: mean, least and most of some seconds. Points are merged into longer ones as a run grows old."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from nodes.protocol.steps import HIGHEST_STEP
from portal.common.samples import GpuReading, TaskReading

Band = tuple[float, float, float]
"""Mean, least and most."""


@dataclass(frozen=True, slots=True)
class Metric:
    """What is measured, in which unit, and what no honest reading exceeds."""

    name: str
    unit: str
    most: int = 1 << 31


OF_STEPS = (Metric("step", "steps", HIGHEST_STEP), Metric("step_time", "ms"))
"""Of a training that tells its steps."""
OF_TASK = (Metric("cpu", "thousandths of a core"), Metric("memory", "MB"), *OF_STEPS)
UTILISATION = Metric("gpu_utilisation", "percent", 100)
GPU_MEMORY = Metric("gpu_memory", "MB")
POWER = Metric("gpu_power", "W")
SM_ACTIVE = Metric("gpu_sm_active", "percent", 100)
OF_ACTIVITY = (
    SM_ACTIVE,
    Metric("gpu_sm_occupancy", "percent", 100),
    Metric("gpu_tensor_active", "percent", 100),
    Metric("gpu_dram_active", "percent", 100),
)
"""Of a GPU that counts what it is busy with."""
OWN = Metric("gpu_own", "percent", 100)
OF_GPU = (
    UTILISATION,
    GPU_MEMORY,
    POWER,
    Metric("gpu_temperature", "degrees Celsius"),
    *OF_ACTIVITY,
    OWN,
)
"""In the order of a ``GpuReading``."""
SOME_TELL = frozenset({*OF_STEPS, *OF_ACTIVITY, OWN})
"""What never told these has no curve of them."""

BUCKET_S = 10
"""Seconds of the shortest points. An agent reports each 5 s."""


class Point(NamedTuple):
    """``read`` readings of the ``seconds`` that begin at ``at`` (since 1970). ``bands``: those of ``OF_TASK``, then
    those of ``OF_GPU`` for each GPU of the task attempt in the order of their UUIDs; None where nothing was told."""

    at: int
    seconds: int
    read: int
    bands: list[Band | None]


def points_of(readings: Iterable[tuple[int, TaskReading]], gpus: Sequence[str], *, since: datetime) -> list[Point]:
    """The readings (each with its moment in ms) of a task attempt that holds these GPUs (UUIDs, in order) since then,
    as points of ``BUCKET_S``. A report of a container may carry a reading from before it was there."""
    buckets: dict[int, list[Point]] = defaultdict(list)
    first_ms = since.timestamp() * 1000
    for at_ms, reading in readings:
        at = at_ms // 1000
        if at_ms >= first_ms:
            buckets[at - at % BUCKET_S].append(Point(at, 0, 1, _bands(reading, gpus)))
    return [merged(buckets[at], at, BUCKET_S) for at in sorted(buckets)]


def _bands(reading: TaskReading, gpus: Sequence[str]) -> list[Band | None]:
    told: dict[str, GpuReading] = {one.uuid: one for one in reading.gpus}
    steps = reading.steps
    values: list[float | None] = [reading.cpu_milli, reading.memory_mb, steps and steps.step, steps and steps.step_ms]
    bands = list(map(_single, values, OF_TASK))
    for uuid in gpus:
        of_gpu = told[uuid][1:] if uuid in told else (None,) * len(OF_GPU)
        bands += map(_single, of_gpu, OF_GPU)
    return bands


def _single(value: float | None, metric: Metric) -> Band | None:
    if value is None:
        return None
    kept = min(max(value, 0), metric.most)
    return kept, kept, kept


def merged(points: Sequence[Point], at: int, seconds: int) -> Point:
    """All of these (at least one) as one point."""
    if len(points) == 1:
        return points[0]._replace(at=at, seconds=seconds)
    counts = [point.read for point in points]
    columns = zip(*(point.bands for point in points), strict=True)
    return Point(at, seconds, sum(counts), [_band(column, counts) for column in columns])


def _band(column: Sequence[Band | None], counts: Sequence[int]) -> Band | None:
    told = [(band, count) for band, count in zip(column, counts, strict=True) if band is not None]
    if not told:
        return None
    mean = sum(band[0] * count for band, count in told) / sum(count for _, count in told)
    return round(mean, 1), min(band[1] for band, _ in told), max(band[2] for band, _ in told)


def coarsened(points: Iterable[Point], step: int) -> list[Point]:
    """The points (in the order of time) in steps of so many seconds; those that are longer stay, and one whose step is
    not full yet is as long as what is in it."""
    groups: dict[int, list[Point]] = defaultdict(list)
    for point in points:
        groups[point.at if point.seconds >= step else point.at - point.at % step].append(point)
    return [_spanning(groups[at]) for at in sorted(groups)]


def _spanning(group: Sequence[Point]) -> Point:
    first, last = group[0], group[-1]
    return merged(group, first.at, last.at + last.seconds - first.at)


def step_for(seconds: int, most: int) -> int:
    """The shortest step, a minute or doubled minutes, in which so many seconds have at most ``most`` points."""
    step = 60
    while step * most < seconds:
        step *= 2
    return step
