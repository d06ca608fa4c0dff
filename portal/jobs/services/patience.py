"""What an end means for the retries of its job: for how long it is taken for others' doing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from django.conf import settings

from portal.jobs.exits import Verdict, verdict
from portal.jobs.models import JobAttempt, TaskAttempt
from portal.jobs.services.backoff import at_start, gave_way, ran
from portal.jobs.states import Behaviour, EndReason

ANEW = timedelta(days=1)
"""A run of so long, or longer, begins the count of such ends anew."""


def judged(row: TaskAttempt) -> Verdict:
    """The verdict on the end of this run of a task. One that others seem to have caused (its program was told to end
    from outside) costs no retry ``FAULT_RETRIES`` times; after that it counts as the job's own failure."""
    found = verdict(row.cause, row.exit_code, row.exit_message, oom_seen=row.oom_seen)
    if found.behaviour is not Behaviour.TRANSIENT or row.started_at is None or (found.node_fault and at_start(row)):
        return found
    times = _spared(row) + 1
    if times <= settings.FAULT_RETRIES:
        return found
    often = f"Its program has ended so {times} times: from now on that counts as a failure of its own."
    return replace(
        found, sentence=f"{found.sentence} {often}", behaviour=Behaviour.UNKNOWN,
        over_limit=times == settings.FAULT_RETRIES + 1,
    )  # fmt: skip


def _spared(row: TaskAttempt) -> int:
    """So many ends before it cost no retry although its program had run: of the whole job where it is a gang, else of
    its task."""
    ends = _of_job(row.job_attempt) if row.job_attempt.job.gang else _of_task(row)
    spared = 0
    for others, lasted in ends:
        if lasted >= ANEW:
            break
        spared += others
    return spared


def _of_job(attempt: JobAttempt) -> list[tuple[bool, timedelta]]:
    """Of the attempts before, newest first: whether it ended so, and how long it ran."""
    earlier = JobAttempt.objects.filter(job=attempt.job_id, number__lt=attempt.number).order_by("-number")
    rows = earlier.values_list("end_reason", "end_behaviour", "started_at", "ended_at")
    so = (EndReason.FAILED, Behaviour.TRANSIENT)
    return [((reason, behaviour) == so, ran(started, ended)) for reason, behaviour, started, ended in rows]


def _of_task(row: TaskAttempt) -> list[tuple[bool, timedelta]]:
    """The same of the runs of a task."""
    earlier = TaskAttempt.objects.filter(task=row.task_id, number__lt=row.number).exclude(cause="")
    columns = ("cause", "exit_code", "stop_reason", "lost_at", "started_at", "ended_at")
    return [(_by_others(one), ran(one.started_at, one.ended_at)) for one in earlier.only(*columns).order_by("-number")]


def _by_others(row: TaskAttempt) -> bool:
    if row.started_at is None or row.lost_at is not None or gave_way(row):
        return False
    why = verdict(row.cause, row.exit_code)
    return why.behaviour is Behaviour.TRANSIENT and not (why.node_fault and at_start(row))
