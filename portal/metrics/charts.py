"""The charts of a job: of one task a line for each of its GPUs, of several a line for each task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from portal.common.charts import Chart, Line, Value
from portal.metrics.overview import TaskCurves, Window
from portal.metrics.points import OF_GPU, OF_TASK, SM_ACTIVE, SOME_TELL, Band, Point
from portal.metrics.reading import Curves, Series

GROUP = "job"
OF_BOTH = (*OF_TASK, *OF_GPU)
COLUMNS = [one.name for one in OF_BOTH]


@dataclass(frozen=True, slots=True)
class _Shown:
    """How a metric is shown. ``divisor`` makes the unit of what was measured."""

    title: str
    unit: str
    divisor: float = 1
    digits: int = 1
    top: float | None = None


def _shown() -> dict[str, _Shown]:
    """In the order in which people look at them."""
    return {
        "gpu_utilisation": _Shown(_("GPU utilisation"), "%", top=100),
        "gpu_sm_active": _Shown(_("SM activity"), "%", top=100),
        "gpu_tensor_active": _Shown(_("Tensor core activity"), "%", top=100),
        "gpu_dram_active": _Shown(_("GPU memory bandwidth"), "%", top=100),
        "gpu_sm_occupancy": _Shown(_("SM occupancy"), "%", top=100),
        "gpu_memory": _Shown(_("GPU memory"), "GB", 1024, 2),
        "gpu_power": _Shown(_("GPU power"), "W"),
        "gpu_temperature": _Shown(_("GPU temperature"), "°C"),
        "step_time": _Shown(_("Time of a step"), "s", 1000, 3),
        "step": _Shown(_("Step"), "", digits=0),
        "cpu": _Shown(_("CPU"), _("cores"), 1000, 2),
        "memory": _Shown(_("Memory"), "GB", 1024, 2),
    }


@dataclass(frozen=True, slots=True)
class _Track:
    """What one line is drawn of: where each band begins, for how many seconds it holds, and the band."""

    name: str
    bands: Sequence[tuple[int, int, Band | None]]


def charts_of_task(curves: Curves, window: Window, *, name: str) -> list[Chart]:
    """A line for each GPU of the task; ``name`` is the task's, for what it has but once."""

    def tracks(metric: str) -> list[_Track]:
        return [_of_series(one, curves, name) for one in curves.series if one.metric.name == metric]

    return _charts(tracks, window)


def _of_series(series: Series, curves: Curves, name: str) -> _Track:
    title = name if series.gpu is None else _("GPU %(index)d") % {"index": series.gpu.index}
    return _Track(title, list(zip(curves.times, curves.seconds, series.bands, strict=True)))


def charts_of_tasks(tasks: Sequence[TaskCurves], window: Window) -> list[Chart]:
    """A line for each task: the mean utilisation and temperature of its GPUs, their memory and power together."""

    def tracks(metric: str) -> list[_Track]:
        column = COLUMNS.index(metric)
        shown = [one for one in tasks if one.gpus or column < len(OF_TASK)]
        found = [_Track(_name(one), [_part(point, column) for point in one.points]) for one in shown]
        if OF_BOTH[column] in SOME_TELL:
            return [track for track in found if any(band for _at, _seconds, band in track.bands)]
        return found

    return _charts(tracks, window)


def _name(task: TaskCurves) -> str:
    return f"{task.row.task.role.name}/{task.row.task.index}"


def _part(point: Point, column: int) -> tuple[int, int, Band | None]:
    return point.at, point.seconds, point.bands[column]


def _charts(tracks: Callable[[str], list[_Track]], window: Window) -> list[Chart]:
    """Of every metric that has lines."""
    times = _times(window)
    found = {key: (shown, some) for key, shown in _shown().items() if (some := tracks(key))}
    note = "" if SM_ACTIVE.name in found else _(
        "Utilisation only, the time with any kernel: its GPUs do not tell how many of their multiprocessors (SM) "
        "work. NVIDIA's do from Hopper on."
    )  # fmt: skip
    return [
        Chart(
            key, shown.title, shown.unit, [_line(track, shown, times, window.step) for track in some],
            times=times, top=shown.top, span=(times[0], window.end), group=GROUP,
            note=note if key == "gpu_utilisation" else "",
        )
        for key, (shown, some) in found.items()
    ]  # fmt: skip


def _times(window: Window) -> list[int]:
    return list(range(window.first - window.first % window.step, window.end, window.step))


def _line(track: _Track, shown: _Shown, times: Sequence[int], step: int) -> Line:
    """At each time what was measured then; a long band holds for several times, and where none is there is a gap."""
    values: list[Value] = [None] * len(times)
    known = [(at, seconds, band) for at, seconds, band in track.bands if band is not None]
    for at, seconds, band in known:
        first = (at - times[0]) // step
        for place in range(max(0, first), min(len(times), first + max(1, seconds // step))):
            values[place] = _short(band[0], shown)
    return Line(
        track.name, values, mean=_mean(known, shown), most=_most((band for _at, _seconds, band in known), shown)
    )


def _short(value: float, shown: _Shown) -> float:
    """As many digits as one sees, since there are many of them."""
    short = round(value / shown.divisor, shown.digits)
    return int(short) if short == int(short) else short


def _mean(known: Sequence[tuple[int, int, Band]], shown: _Shown) -> Value:
    seconds = sum(length for _at, length, _band in known)
    return sum(band[0] * length for _at, length, band in known) / seconds / shown.divisor if seconds else None


def _most(bands: Iterable[Band], shown: _Shown) -> Value:
    most = max((band[2] for band in bands), default=None)
    return None if most is None else most / shown.divisor
