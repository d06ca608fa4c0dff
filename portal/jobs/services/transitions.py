"""Every state change: one conditional UPDATE following the transition table, with its event row, in a transaction.

Zero rows means somebody else was first, and that is fine: the caller gets False and does nothing more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Count, QuerySet

from nodes.protocol.wording import stored
from portal.common.live import announce_all
from portal.common.moves import sources
from portal.common.prepared import Among, Prepared
from portal.common.wake import scheduler_wake
from portal.jobs.models import Claim, Job, JobAttempt, JobEvent, Task, TaskAttempt
from portal.jobs.states import (
    ATTEMPT_MOVES,
    JOB_MOVES,
    JOB_OVER,
    TASK_MOVES,
    AttemptState,
    JobState,
    TaskState,
)

_CLAIMS_NOTHING = JOB_OVER | {JobState.STOPPING}
"""States in which a job no longer waits for GPUs: its claims are dropped."""
_MAKES_ROOM = _CLAIMS_NOTHING | {JobState.WAITING}
"""States that may let the scheduler start something: this job, or one that waited for it."""


def job_event(
    *,
    job: Job,
    code: str,
    message: str,
    now: datetime,
    actor: str = "",
    job_attempt: JobAttempt | None = None,
    task_attempt: TaskAttempt | None = None,
) -> None:
    """Writes an event inside the caller's transaction, and announces it to open pages on commit. Raises TypeError for a
    message that is not declared."""
    JobEvent.objects.create(
        job=job, job_attempt=job_attempt, task_attempt=task_attempt,
        at=now, code=code, data=stored(message), actor=actor,
    )  # fmt: skip
    job_announce(job)


def job_hold(job_id: int) -> None:
    """Locks the job's row until the transaction ends. Lock order for any change of a job: the job first, then its
    attempts, then nodes by id, so that no two transactions deadlock."""
    jobs_hold([job_id])


def jobs_hold(job_ids: Iterable[int]) -> None:
    """Locks several jobs' rows, in the order of their ids."""
    _HELD(jobs=job_ids)


_HELD = Prepared(
    lambda: Job.objects.select_for_update(no_key=True).filter(Among("id", "jobs")).order_by("pk").values_list("pk")
)


def job_announce(job: Job) -> None:
    """Tells open pages on commit to read the job again."""
    jobs_announce([job])


def jobs_announce(jobs: Iterable[Job]) -> None:
    """The same for several jobs at once."""
    payloads = [{"id": job.pk, "vc": job.vc_id, "user": job.user_id} for job in jobs]
    if payloads:
        transaction.on_commit(lambda: announce_all("job", payloads))


def job_move(job: Job, to: JobState, *, now: datetime, code: str, message: str, actor: str = "", **fields: Any) -> bool:
    """Moves a job, with the given columns, if the table allows it from its row's state."""
    rows = Job.objects.filter(pk=job.pk, state__in=sources(JOB_MOVES, to)).update(state=to, **fields)
    if rows:
        for name, value in fields.items():
            setattr(job, name, value)
        job.state = to
        if to in _CLAIMS_NOTHING:
            Claim.objects.filter(claimant=job).delete()
        job_event(job=job, code=code, message=message, now=now, actor=actor)
        if to in _MAKES_ROOM:
            transaction.on_commit(scheduler_wake)
    return bool(rows)


def attempt_move(
    attempt: JobAttempt, to: AttemptState, *, now: datetime, code: str, message: str, **fields: Any
) -> bool:
    """Moves a job attempt if the table allows it."""
    rows = JobAttempt.objects.filter(pk=attempt.pk, state__in=sources(ATTEMPT_MOVES, to)).update(state=to, **fields)
    if rows:
        for name, value in fields.items():
            setattr(attempt, name, value)
        attempt.state = to
        job_event(job=attempt.job, job_attempt=attempt, code=code, message=message, now=now)
    return bool(rows)


def tasks_move(tasks: QuerySet[Task], to: TaskState, **fields: Any) -> int:
    """Moves those of the tasks that the table allows; returns how many. Their attempts have the events. A move ends a
    task's retry pause."""
    return tasks.filter(state__in=sources(TASK_MOVES, to)).update(state=to, **({"not_before": None} | fields))


def tasks_running(jobs: Collection[int]) -> dict[int, int]:
    """How many tasks of each of these jobs have started and not ended. One query; none without jobs."""
    if not jobs:
        return {}
    rows = Task.objects.filter(job__in=jobs, state__in=[TaskState.STARTING, TaskState.RUNNING]).order_by()
    return dict(rows.values_list("job").annotate(Count("pk")))


def tasks_resume(*, job: Job) -> None:
    """Ends the pauses of single tasks: the job as a whole waits now."""
    Task.objects.filter(job=job, not_before__isnull=False).update(not_before=None)
