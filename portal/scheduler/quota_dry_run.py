"""Dry run: apply a change in a transaction, read, roll back; plan a cycle with and without it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from django.db import transaction

from portal.jobs.models import Job
from portal.scheduler.snapshot import SNAPSHOTS, Loaded
from portal.teams.selectors.details import lines_named
from portal.teams.selectors.quotas import base_lines
from scheduling import Engine, Running, Standing, TaskRef

Held = dict[tuple[str, TaskRef], int]
"""GPUs that placed tasks hold, by job (engine id) and task."""


@dataclass(frozen=True, slots=True)
class Struck:
    """A running job that a change hurts, and how many of its GPUs it affects."""

    job: Job
    gpus: int


@dataclass(frozen=True, slots=True)
class QuotaMove:
    """A quota line that changes: cells before and after."""

    vc: str
    cell_type: str
    chain: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Effect:
    """Who loses by a change, ordered by id: jobs that run on, but on loan, until their GPUs are reclaimed; and jobs
    that the very next cycle preempts. A job that only moves to other cells of its quota loses nothing. ``quotas``: the
    changed lines, by name."""

    demoted: list[Struck] = field(default_factory=list)
    preempted: list[Struck] = field(default_factory=list)
    quotas: list[QuotaMove] = field(default_factory=list)


def dry_run_effect(*, change: Callable[[], object], now: datetime) -> Effect:
    """What the cycle after ``change`` does to running jobs that it would not do without it. Raises whatever the change
    raises; always rolled back."""
    with transaction.atomic():
        before, had = SNAPSHOTS.read(now=now), _lines()
        change()
        after, have = SNAPSHOTS.read(now=now), _lines()
        transaction.set_rollback(True)
    without, with_it = _next(before, now), _next(after, now)
    held = _Then.of(before.snapshot.running)
    taken = {task: gpus for task, gpus in with_it.leaving.items() if task not in without.leaving}
    lost = {task: gpus for task, gpus in without.inside.items() if task in held.inside and task not in with_it.inside}
    demoted = {task: gpus for task, gpus in lost.items() if task not in with_it.leaving}
    keys = sorted({*had, *have})
    moves = [QuotaMove(*key, had.get(key, 0), have.get(key, 0)) for key in keys if had.get(key, 0) != have.get(key, 0)]
    return Effect(_struck(demoted, after), _struck(taken, after), moves)


def _lines() -> dict[tuple[str, str, str], int]:
    """The quotas without temporary changes, by virtual cluster, cell type and chain."""
    return {(line.vc, line.cell_type, line.chain): line.count for line in lines_named(base_lines())}


class _Then(NamedTuple):
    """Placed tasks inside the quota, and those told to end."""

    inside: Held
    leaving: Held

    @classmethod
    def of(cls, running: Iterable[Running]) -> _Then:
        found = cls({}, {})
        for job, tasks in running:
            for task in tasks:
                place = task.placement
                if task.leaving:
                    found.leaving[job.id, place.task] = len(place.leaves)
                elif place.leaves and all(use.standing is Standing.GUARANTEED for use in place.leaves):
                    found.inside[job.id, place.task] = len(place.leaves)
        return found


def _next(loaded: Loaded, now: datetime) -> _Then:
    """The state once the next cycle is done."""
    engine = Engine.restore(loaded.snapshot)
    engine.advance(int(now.timestamp() * 1000))
    return _Then.of(engine.snapshot().running)


def _struck(tasks: Held, loaded: Loaded) -> list[Struck]:
    gpus: Counter[int] = Counter()
    for (job, _), count in tasks.items():
        gpus[loaded.jobs[job]] += count
    rows = Job.objects.filter(pk__in=gpus).select_related("user", "vc").order_by("pk")
    return [Struck(row, gpus[row.pk]) for row in rows]
