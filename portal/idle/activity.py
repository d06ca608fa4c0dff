"""How long all GPUs of a job have been below any percentage, in few numbers.

A minute counts with its busiest GPU. Only minutes that no later one exceeds are kept: a staircase of at most 101 steps,
from which "since when below x %" is read for every x. So a changed policy also judges earlier measurements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

GAP = 5
"""After a gap of more minutes without reports of all GPUs, counting restarts: they may have worked meanwhile."""
NOBODY_KNOWS = 101
"""Percentage of the step before the first minute: busier than any."""
ENOUGH_MS = 30_000
"""How much of a minute a GPU must have reported."""


class Step(NamedTuple):
    """A step: ``percent`` of minute number ``told``, which ended at ``at`` (minutes since 1970)."""

    percent: int
    told: int
    at: int


class GpuMinute(NamedTuple):
    """A GPU's report for a minute: ms covered and mean utilisation in percent."""

    told_ms: int
    mean: float


class Minute(NamedTuple):
    """A job's minute: the percentage of its busiest reporting GPU, and ``whole``: all of its GPUs reported."""

    busiest: int | None
    whole: bool


@dataclass(frozen=True, slots=True)
class Stretch:
    """Minutes below a percentage, from ``since`` on (minutes since 1970); ``known``: before them a GPU worked, rather
    than nothing being known."""

    minutes: int
    since: int
    known: bool


@dataclass(frozen=True, slots=True)
class Activity:
    """A job's GPU activity. ``told``: minutes that all GPUs reported; ``last``: the newest."""

    told: int
    last: int
    steps: tuple[Step, ...]

    def below(self, percent: int) -> Stretch:
        """How long all GPUs were below it. Minutes not reported by all do not count."""
        last = next(step for step in reversed(self.steps) if step.percent >= percent)
        return Stretch(self.told - last.told, last.at, last.percent < NOBODY_KNOWS)


def activity_after(before: Activity | None, at: int, minute: Minute) -> Activity | None:
    """The activity with one more minute (``at``: since 1970); unchanged if that was counted before."""
    if before is not None and at <= before.last:
        return before
    if minute.busiest is None:
        return before
    if before is None or at - before.last > GAP:
        if not minute.whole:
            return before
        before = Activity(0, at - 1, (Step(NOBODY_KNOWS, 0, at),))
    told = before.told + minute.whole
    higher = [step for step in before.steps if step.percent > minute.busiest]
    return Activity(told, at if minute.whole else before.last, (*higher, Step(minute.busiest, told, at + 1)))


def minute_of(tasks: Iterable[Sequence[GpuMinute] | None]) -> Minute:
    """A job's minute from those of its tasks' GPUs; None for a task that reported nothing."""
    told = [[] if one is None else list(one) for one in tasks]
    gpus = [gpu for one in told for gpu in one]
    known = [gpu.mean for gpu in gpus if gpu.told_ms > 0]
    whole = all(told) and all(gpu.told_ms >= ENOUGH_MS for gpu in gpus)
    return Minute(min(100, int(max(known))) if known else None, whole and bool(gpus))
