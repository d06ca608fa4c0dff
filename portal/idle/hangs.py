"""Finds trainings that hang: GPUs at full utilisation that draw little power, with few multiprocessors at work where
they count them; no step and no output.

That is how a collective that waits for a lost partner looks. What is usual is learned from the job itself: how long one
of its steps takes, and what its GPUs draw and do meanwhile. A suspicion is told and never acted on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db.models import QuerySet

from portal.common.bulk import rows_insert, rows_update
from portal.idle import wordings
from portal.idle.models import StepWatch
from portal.jobs.models import Job, TaskAttempt
from portal.jobs.selectors.visible import with_task
from portal.jobs.services.transitions import job_event

MINUTE = timedelta(minutes=1)
LEAST_WAIT, MOST_STEPS = timedelta(minutes=5), 20
"""No step for so long, and for as long as so many steps take."""
LEARNED = 5
"""Minutes of progress before anything is judged."""
FULL, LOW = 95, 0.6
"""Percent of utilisation that every GPU has at least; the part of their usual power, and of their multiprocessors
usually at work, that they have at most."""
REMEMBERED = 240
"""Minutes after which older ones count less in the usual power."""


@dataclass(frozen=True, slots=True)
class StepMinute:
    """What a training told in a minute: its newest step, ms of one, bytes of log; of its GPUs the least mean percent of
    utilisation, and the mean watts together; the mean percent of multiprocessors at work, where they count them."""

    step: int
    step_ms: float
    log_end: int
    utilisation: float
    watts: float
    sm: float | None = None


class Watched(NamedTuple):
    """The columns of a ``StepWatch``."""

    step: int
    step_ms: float
    log_end: int
    moved_at: datetime
    minutes: int
    usual_w: float
    watts: float
    usual_sm: float | None
    sm: float | None
    hangs: bool


def watched_after(before: Watched | None, told: StepMinute, end: datetime) -> Watched:
    """The state after a minute that ended at ``end``. What hangs does so until a step or output comes: GPUs that rest
    or that draw more are no progress."""
    if before is None or (told.step, told.log_end) != (before.step, before.log_end):
        minutes = before.minutes + 1 if before else 1
        usual_w, usual_sm = _learned(before and before.usual_w, told.watts, minutes), before and before.usual_sm
        if told.sm is not None:
            usual_sm = _learned(usual_sm, told.sm, minutes)
        return Watched(
            told.step, told.step_ms, told.log_end, end, minutes, usual_w, told.watts, usual_sm, told.sm, hangs=False
        )
    if before.hangs:
        return before
    wait = max(LEAST_WAIT, MOST_STEPS * timedelta(milliseconds=before.step_ms))
    hangs = (
        before.minutes >= LEARNED
        and end - before.moved_at >= wait
        and told.utilisation >= FULL
        and told.watts <= LOW * before.usual_w
        and (told.sm is None or before.usual_sm is None or told.sm <= LOW * before.usual_sm)
    )
    return before._replace(watts=told.watts, sm=told.sm, hangs=hangs)


def _learned(usual: float | None, told: float, minutes: int) -> float:
    """The mean of so many minutes, of which this one is the last."""
    return told if usual is None else usual + (told - usual) / min(minutes, REMEMBERED)


def steps_watch(*, minute: datetime, told: Mapping[UUID, StepMinute], now: datetime) -> None:
    """Judges a minute of all trainings that tell their steps, inside the transaction that ingests it once. Three
    statements at most, and an event for each that begins or ceases to hang."""
    StepWatch.objects.filter(task_attempt__released_at__isnull=False).delete()
    if not told:
        return
    rows = StepWatch.objects.filter(pk__in=told).values_list("pk", *Watched._fields)
    before = {key: Watched(*columns) for key, *columns in rows}
    after = {key: watched_after(before.get(key), one, minute + MINUTE) for key, one in told.items()}
    known = [(key, *one) for key, one in sorted(after.items()) if key in before]
    new = [(key, *one) for key, one in sorted(after.items()) if key not in before]
    if known:
        rows_update(StepWatch, Watched._fields, known, only={})
    if new:
        rows_insert(StepWatch, ("task_attempt", *Watched._fields), new)
    changed = [key for key, one in before.items() if one.hangs != after[key].hangs]
    if changed:
        _tell(changed, after, minute + MINUTE, now)


def _tell(keys: Iterable[UUID], after: Mapping[UUID, Watched], end: datetime, now: datetime) -> None:
    for row in with_task(TaskAttempt.objects.filter(pk__in=keys)).select_related("job_attempt__job"):
        one, attempt = after[row.pk], row.job_attempt
        task = f"{row.task.role.name}/{row.task.index}"
        if one.hangs:
            code, message = "hang_suspected", _sentence(task, one, end)
        else:
            code, message = "hang_over", wordings.GOES_ON(task=task, step=f"{one.step:,}")
        job_event(job=attempt.job, job_attempt=attempt, code=code, message=message, now=now)


def _sentence(task: str, one: Watched | StepWatch, at: datetime) -> str:
    """As it is stored."""
    return wordings.HANGS(
        task=task,
        step=f"{one.step:,}",
        time=wordings.MINUTES(number=int((at - one.moved_at) / MINUTE)),
        seconds=f"{one.step_ms / 1000:.3g}",
        signs=hang_signs(one),
    )


def hang_signs(one: Watched | StepWatch) -> str:
    """What its GPUs did instead of the usual, as it is stored."""
    power = {"watts": round(one.watts), "usual": round(one.usual_w)}
    if one.sm is None or one.usual_sm is None:
        return wordings.DREW(**power)
    return wordings.DREW_AND_WORKED(**power, sm=round(one.sm), usual_sm=round(one.usual_sm))


def hangs_of(*, job: Job, now: datetime) -> list[str]:
    """A sentence, as it is stored, for each task of a running job that seems to hang. One query."""
    return [
        _sentence(f"{row.task_attempt.task.role.name}/{row.task_attempt.task.index}", row, now)
        for row in hanging(StepWatch.objects.filter(task_attempt__task__job=job))
    ]


def hanging(rows: QuerySet[StepWatch]) -> QuerySet[StepWatch]:
    """Of these watched tasks those that seem to hang, the longest first, with what names them."""
    path = "task_attempt__task"
    return (
        rows.filter(hangs=True, task_attempt__released_at__isnull=True)
        .select_related(f"{path}__role", f"{path}__job__user", f"{path}__job__vc")
        .order_by("moved_at", "pk")
    )
