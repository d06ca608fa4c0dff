"""Whether an end counts against retries: how long it is blamed on others."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Max, Min

from nodes.protocol.states import Cause
from portal.jobs.exits import FAILED_OFTEN, TRIED_FOR, TRIED_UNTIL, Verdict, verdict
from portal.jobs.models import JobAttempt, TaskAttempt
from portal.jobs.services.retry_backoff import at_start, ran
from portal.jobs.states import Behaviour, EndReason

ANEW = timedelta(days=1)
"""A run at least this long resets the count."""


def judged(row: TaskAttempt) -> Verdict:
    """The verdict on the end of this task attempt. An end that others seem to have caused (its program was told to end
    from outside) is free ``FAULT_RETRIES`` times, a registry that gives no image for ``REGISTRY_RETRY_S``; after that
    it counts as the job's own failure."""
    found = verdict(row.cause, row.exit_code, row.exit_message, oom_seen=row.oom_seen)
    if row.cause == Cause.IMAGE_AWAY:
        return _registry_judged(row, found)
    if found.behaviour is not Behaviour.TRANSIENT or row.started_at is None or (found.node_fault and at_start(row)):
        return found
    times = _spared(row) + 1
    if times <= settings.FAULT_RETRIES:
        return found
    return replace(
        found, sentence=FAILED_OFTEN(why=found.sentence, times=times), behaviour=Behaviour.UNKNOWN,
        over_limit=times == settings.FAULT_RETRIES + 1,
    )  # fmt: skip


def _registry_judged(row: TaskAttempt, found: Verdict) -> Verdict:
    until, ended = registry_until(row), row.ended_at
    if until is None or ended is None or ended < until:
        told = TRIED_UNTIL(why=found.sentence, time=f"{until:%H:%M:%S}") if until else found.sentence
        return replace(found, sentence=told)
    told = TRIED_FOR(why=found.sentence, minutes=settings.REGISTRY_RETRY_S // 60)
    return replace(found, sentence=told, behaviour=Behaviour.UNKNOWN)


def registry_until(row: TaskAttempt) -> datetime | None:
    """Until when retries for this attempt's image are free: ``REGISTRY_RETRY_S`` after the first registry failure since
    the job, or this task if it is retried alone, last ran."""
    runs = TaskAttempt.objects.filter(**({"task": row.task_id} if row.alone else {"task__job": row.job_attempt.job_id}))
    begun = runs.aggregate(last=Max("started_at"))["last"]
    away = runs.filter(cause=Cause.IMAGE_AWAY, **({"created_at__gt": begun} if begun else {}))
    first = away.aggregate(first=Min("ended_at"))["first"]
    return first + timedelta(seconds=settings.REGISTRY_RETRY_S) if first else None


def tried_again(*, row: TaskAttempt | None, pause: timedelta, now: datetime) -> datetime | None:
    """When to retry after this task attempt; None: at once. The last try for an image comes when its free retries
    end."""
    if not pause:
        return None
    until = registry_until(row) if row is not None and row.cause == Cause.IMAGE_AWAY else None
    return min(now + pause, until) if until is not None and until > now else now + pause


def _spared(row: TaskAttempt) -> int:
    """How many earlier ends others seem to have caused although its program had run: of its task if that is retried
    alone, else of the whole job."""
    ends = _of_task(row) if row.alone else _of_job(row.job_attempt)
    spared = 0
    for others, lasted in ends:
        if lasted >= ANEW:
            break
        spared += others
    return spared


def _of_job(attempt: JobAttempt) -> list[tuple[bool, timedelta]]:
    """For earlier attempts, newest first: whether others caused the end, and how long it ran."""
    earlier = JobAttempt.objects.filter(job=attempt.job_id, number__lt=attempt.number).order_by("-number")
    rows = earlier.values_list("end_reason", "end_behaviour", "exit_code", "started_at", "ended_at")
    return [
        (reason == EndReason.FAILED and _of_others(behaviour, code), ran(started, ended))
        for reason, behaviour, code, started, ended in rows
    ]


def _of_others(behaviour: str, code: int | None) -> bool:
    """Whether others caused it; also if it counted as the job's own because there had been too many."""
    over = behaviour == Behaviour.UNKNOWN and verdict(Cause.EXITED, code).behaviour is Behaviour.TRANSIENT
    return over or behaviour == Behaviour.TRANSIENT


def _of_task(row: TaskAttempt) -> list[tuple[bool, timedelta]]:
    """The same for the attempts of a task."""
    earlier = TaskAttempt.objects.filter(task=row.task_id, number__lt=row.number).exclude(cause="")
    columns = ("cause", "exit_code", "lost_at", "started_at", "ended_at")
    return [(_by_others(one), ran(one.started_at, one.ended_at)) for one in earlier.only(*columns).order_by("-number")]


def _by_others(row: TaskAttempt) -> bool:
    if row.started_at is None or row.lost_at is not None:
        return False
    why = verdict(row.cause, row.exit_code)
    return why.behaviour is Behaviour.TRANSIENT and not (why.node_fault and at_start(row))
