"""Phase B: how long a process needs off its GPU and back, by what it holds there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import linear_regression

from tests.gpu_check.bench import MIB, Bench
from tests.gpu_check.failing import NotHere
from tests.gpu_check.readings import free_memory

SIZES = ((1 / 128, 3), (1 / 16, 3), (1 / 4, 2), (1 / 2, 1))
"""Of the GPU's memory, and how often."""

RESERVE_S = 15
"""What is left of the time for ending, when no further size is begun."""

Point = tuple[float, float, float]
"""GB on the GPU, seconds out, seconds back."""


def switching(bench: Bench) -> str:
    """Raises Failed; NotHere where this machine has no memory for more than one size."""
    points: list[Point] = []
    room, largest = 0.7 * free_memory(), 0.0
    for part, times in SIZES:
        size = min(part * bench.gpu.total, room)
        if size < 1.5 * largest or (points and too_long(bench, points, size)):
            break
        measure(bench, round(size / MIB), times, points)
        largest = size
    if points[-1][0] == points[0][0]:
        raise NotHere(f"this machine has no memory to park more than {points[0][0]:.1f} GB")
    (out_s, out_per_gb), (in_s, in_per_gb) = fit(points, 1), fit(points, 2)
    bench.tell({
        "out_constant_s": out_s, "out_s_per_gb": out_per_gb, "in_constant_s": in_s, "in_s_per_gb": in_per_gb,
    })  # fmt: skip
    return f"out {line(out_s, out_per_gb)}; back {line(in_s, in_per_gb)}; up to {points[-1][0]:.1f} GB"


def measure(bench: Bench, mebibytes: int, times: int, points: list[Point]) -> None:
    """Adds to the points."""
    program = bench.running("--mib", mebibytes)
    held = (bench.gpu.used() - bench.idle) / 1e9
    for _ in range(times):
        out = bench.park(program)
        bench.expect_gone(program)
        back = bench.resume(program)
        program.goes_on()
        points.append((round(held, 3), round(out, 3), round(back, 3)))
        bench.tell({"gb_out_s_in_s": points})
    bench.end(program)


def too_long(bench: Bench, points: Sequence[Point], size: float) -> bool:
    """Whether a switch of this many bytes would not end in time; that it is left out is told."""
    held, out, back = points[-1]
    needs = 3 * (out + back) * max(1, size / 1e9 / held)  # with filling, and parking it to end it
    if needs < bench.deadline - time.monotonic() - RESERVE_S:
        return False
    bench.tell({"left_out": f"{size / 1e9:.0f} GB would take about {needs:.0f} s"})
    return True


def fit(points: Sequence[Point], which: int) -> tuple[float, float]:
    """Constant in seconds, and seconds for each GB, of this column: the line with the least squares."""
    found = linear_regression([point[0] for point in points], [point[which] for point in points])
    return round(found.intercept, 3), round(found.slope, 4)


def line(constant: float, per_gb: float) -> str:
    return f"{constant:.2f} s + {per_gb:.3f} s/GB" + (f" ({1 / per_gb:.1f} GB/s)" if per_gb > 0 else "")
