"""Advice on a job from its readings: what it asked for and did not use, and what holds it up.

Each sentence carries the numbers that it rests on. It is made from the records of the newest attempt, of its first
hundred tasks, once they cover ``ENOUGH_S``; nothing acts on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean
from uuid import UUID

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.jobs.models import Allocation, Job, TaskAttempt
from portal.jobs.selectors.details import job_attempt_current, task_runs
from portal.metrics.overview import MOST_TASKS, RECORDS_CACHED, record_marks
from portal.metrics.points import GPU_MEMORY, OF_GPU, OF_TASK, SM_ACTIVE, UTILISATION, Point, merged
from portal.metrics.record import Records

ENOUGH_S = 600
"""Shortest run, in seconds with readings, that is judged."""
SMALL_MEMORY = 45
"""Percent of a GPU's memory at its peak below which half of one would do."""
SMALL_SM = 40
"""Percent of a GPU's multiprocessors at work on average below which half of them would do."""
LOW_USE, BUSY_CPU = 50, 90
"""Percent of GPUs' use on average (multiprocessors at work, or else utilisation) and of the CPU asked for between which
the CPU holds the GPUs up."""
NEAR_LIMIT = 95
"""Percent of the memory asked for at the peak above which the next peak may end the task."""


ADVICE_CODES = ["gpu_idle", "gpu_memory", "cpu_bound", "memory_near"]


@dataclass(frozen=True, slots=True)
class Advice:
    """One piece of advice: a code for programs, a sentence in the reader's language, and its numbers."""

    code: str
    message: str
    numbers: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Gpu:
    """A GPU over a whole run: mean percent of utilisation, and of multiprocessors at work where it counts them; MB at
    the memory's peak and in all."""

    mean: float
    sm: float | None
    peak_mb: float
    memory_mb: int


@dataclass(frozen=True, slots=True)
class _Run:
    """A task attempt over its whole run."""

    row: TaskAttempt
    seconds: int
    cpu_milli: float
    peak_mb: float
    gpus: list[_Gpu]


def job_advice(*, job: Job) -> list[Advice]:
    """Advice on the newest attempt of a job. Five queries."""
    newest, records = job_attempt_current(job=job), Records(settings.METRICS_DIR)
    if newest is None:
        return []
    rows, _total = task_runs(job=job, attempt=newest.number, first=0, limit=MOST_TASKS)
    gpus = _memory(rows)
    read = ((row, _summed(records, str(row.pk), record_marks(records, row), len(gpus[row.pk]))) for row in rows)
    runs = [_run(row, bands, gpus[row.pk]) for row, bands in read if bands and bands.seconds >= ENOUGH_S]
    return [*_idle(runs), *_small(runs), *_starved(runs), *_near(runs)] if runs else []


def _memory(rows: Sequence[TaskAttempt]) -> Mapping[UUID, list[int]]:
    """The memory of each one's GPUs in MB, in the records' order."""
    found: dict[UUID, list[int]] = defaultdict(list)
    held = Allocation.objects.filter(task_attempt__in=[row.pk for row in rows]).order_by("leaf__uuid")
    for key, _uuid, memory_mb in held.values_list("task_attempt", "leaf__uuid", "leaf__memory_mb").distinct():
        found[key].append(memory_mb)
    return found


@lru_cache(maxsize=RECORDS_CACHED)
def _summed(records: Records, attempt: str, marks: object, gpus: int) -> Point | None:
    """The whole record as one point; read again when its ``marks`` change. Of a file that is not as we left it the rest
    counts."""
    width = len(OF_TASK) + gpus * len(OF_GPU)
    points = [point for point in records.read(attempt) if len(point.bands) == width] if marks else []
    return merged(points, points[0].at, sum(point.seconds for point in points)) if points else None


def _run(row: TaskAttempt, whole: Point, memory: Sequence[int]) -> _Run:
    cpu, used = whole.bands[:2]
    gpus = []
    for number, memory_mb in enumerate(memory):
        first = len(OF_TASK) + number * len(OF_GPU)
        told = {metric: band for metric, band in zip(OF_GPU, whole.bands[first:], strict=False) if band}
        if UTILISATION in told:
            sm, filled = told.get(SM_ACTIVE), told.get(GPU_MEMORY)
            gpus.append(_Gpu(told[UTILISATION][0], sm[0] if sm else None, filled[2] if filled else 0, memory_mb))
    return _Run(row, whole.seconds, cpu[0] if cpu else 0, used[2] if used else 0, gpus)


def _gpus(runs: Iterable[_Run]) -> list[_Gpu]:
    return [gpu for run in runs for gpu in run.gpus]


def _works(gpu: _Gpu) -> bool:
    return gpu.mean >= settings.IDLE_PERCENT


def _idle(runs: Sequence[_Run]) -> Iterator[Advice]:
    gpus = _gpus(runs)
    numbers = {
        "gpus": len(gpus), "idle": sum(not _works(gpu) for gpu in gpus), "percent": settings.IDLE_PERCENT,
        "minutes": max(run.seconds for run in runs) // 60,
    }  # fmt: skip
    if not numbers["idle"]:
        return
    if numbers["idle"] == numbers["gpus"]:
        words = ngettext(
            "Its GPU did next to nothing: below %(percent)s %% on average over %(minutes)s minutes. Does its program "
            "find it?",
            "None of its %(gpus)s GPUs did anything: below %(percent)s %% on average over %(minutes)s minutes. Does "
            "its program find them?",
            numbers["gpus"],
        )
    else:
        words = _(
            "%(idle)s of its %(gpus)s GPUs did next to nothing: below %(percent)s %% on average over %(minutes)s "
            "minutes. Ask for fewer, or start a process for each."
        )
    yield Advice("gpu_idle", words % numbers, numbers)


def _small(runs: Sequence[_Run]) -> Iterator[Advice]:
    """Of GPUs that worked, the one whose memory was filled most."""
    working = list(filter(_works, _gpus(runs)))
    fullest = max(working, key=lambda gpu: gpu.peak_mb / max(gpu.memory_mb, 1), default=None)
    if fullest is None or not 0 < 100 * fullest.peak_mb < SMALL_MEMORY * fullest.memory_mb:
        return
    numbers = {"peak": round(fullest.peak_mb / 1024), "memory": round(fullest.memory_mb / 1024)}
    counted = [gpu.sm for gpu in working if gpu.sm is not None]
    if len(counted) == len(working) and max(counted) < SMALL_SM:
        numbers["sm"] = round(max(counted))
        words = _(
            "Of its GPUs' memory at most %(peak)s of %(memory)s GB were used, and of their multiprocessors %(sm)s %% "
            "on average: half a GPU would do. Take a smaller one, or try a larger batch."
        )
    else:
        words = _(
            "Of its GPUs' memory at most %(peak)s of %(memory)s GB were used: a larger batch may be faster, or a "
            "smaller GPU would do."
        )
    yield Advice("gpu_memory", words % numbers, numbers)


def _starved(runs: Sequence[_Run]) -> Iterator[Advice]:
    """CPUs that are busy while the GPUs wait, in the task where the CPUs are busiest. A GPU that waits for data between
    small kernels has a high utilisation, and few multiprocessors at work."""
    run = max(runs, key=lambda one: one.cpu_milli / max(one.row.cpu_milli, 1))
    working = list(filter(_works, run.gpus))
    counted = [gpu.sm for gpu in working if gpu.sm is not None]
    uses = counted if len(counted) == len(working) else [gpu.mean for gpu in working]
    if not uses or fmean(uses) >= LOW_USE or 100 * run.cpu_milli < BUSY_CPU * run.row.cpu_milli:
        return
    numbers = {
        "use": round(fmean(uses)), "cpu": round(100 * run.cpu_milli / run.row.cpu_milli),
        "cores": run.row.cpu_milli // 1000,
    }  # fmt: skip
    if uses is counted:
        words = _(
            "Its GPUs had %(use)s %% of their multiprocessors at work while its CPUs were at %(cpu)s %% of the "
            "%(cores)s that it asked for: preparing its data holds it up. Ask for more CPU, or prepare the data "
            "beforehand."
        )
    else:
        words = _(
            "Its GPUs worked %(use)s %% of the time while its CPUs were at %(cpu)s %% of the %(cores)s that it "
            "asked for: preparing its data holds it up. Ask for more CPU, or prepare the data beforehand."
        )
    yield Advice("cpu_bound", words % numbers, numbers)


def _near(runs: Sequence[_Run]) -> Iterator[Advice]:
    fullest = max(runs, key=lambda run: run.peak_mb / max(run.row.memory_mb, 1))
    if 100 * fullest.peak_mb >= NEAR_LIMIT * fullest.row.memory_mb > 0:
        numbers = {"peak": round(fullest.peak_mb), "memory": fullest.row.memory_mb}
        words = _("Its memory peaked at %(peak)s of %(memory)s MB, beyond which it is ended: ask for more.")
        yield Advice("memory_near", words % numbers, numbers)
