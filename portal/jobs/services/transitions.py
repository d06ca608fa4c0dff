"""Every change of state: one conditional UPDATE after the transition table, with its event row, in a transaction.

Zero rows means somebody was there first, and that is fine: the caller gets False and does nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

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
"""States in which a job waits for no GPU any more: what was kept for it is free."""
_MAKES_ROOM = _CLAIMS_NOTHING | {JobState.WAITING}
"""States that may let the scheduler start something: a job that waits, or one that others waited for."""


def job_event(
    *,
    job: Job,
    code: str,
    message: str,
    now: datetime,
    actor: str = "",
    job_attempt: JobAttempt | None = None,
    task_attempt: TaskAttempt | None = None,
    **data: Any,
) -> None:
    """Write what happened, inside the caller's transaction, and tell the pages once it is committed."""
    JobEvent.objects.create(
        job=job, job_attempt=job_attempt, task_attempt=task_attempt,
        at=now, code=code, message=message, actor=actor, data=data,
    )  # fmt: skip
    job_announce(job)


def job_hold(job_id: int) -> None:
    """Hold the job's row until the transaction ends. Whoever changes anything of a job does this first, then takes
    its attempts, then nodes in the order of their ids: so no two ever wait for each other."""
    jobs_hold([job_id])


def jobs_hold(job_ids: Iterable[int]) -> None:
    """Hold several jobs' rows, in the order of their ids."""
    _HELD(jobs=job_ids)


_HELD = Prepared(
    lambda: Job.objects.select_for_update(no_key=True).filter(Among("id", "jobs")).order_by("pk").values_list("pk")
)


def job_announce(job: Job) -> None:
    """A hint to open pages, on commit; they read the rows again."""
    jobs_announce([job])


def jobs_announce(jobs: Iterable[Job]) -> None:
    """The same for several jobs at once."""
    payloads = [{"id": job.pk, "vc": job.vc_id, "user": job.user_id} for job in jobs]
    if payloads:
        transaction.on_commit(lambda: announce_all("job", payloads))


def job_move(job: Job, to: JobState, *, now: datetime, code: str, message: str, actor: str = "", **fields: Any) -> bool:
    """Move a job, with the given columns, where the table allows it from the state its row is in."""
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
    """Move a job attempt where the table allows it."""
    rows = JobAttempt.objects.filter(pk=attempt.pk, state__in=sources(ATTEMPT_MOVES, to)).update(state=to, **fields)
    if rows:
        for name, value in fields.items():
            setattr(attempt, name, value)
        attempt.state = to
        job_event(job=attempt.job, job_attempt=attempt, code=code, message=message, now=now)
    return bool(rows)


def tasks_move(tasks: QuerySet[Task], to: TaskState, **fields: Any) -> int:
    """Move those of the tasks that the table allows; how many. Their events are those of their attempts. A move ends
    the pause of a task that was to be tried again."""
    return tasks.filter(state__in=sources(TASK_MOVES, to)).update(state=to, **({"not_before": None} | fields))


def tasks_resume(*, job: Job) -> None:
    """End the pauses of single tasks: the job as a whole waits now."""
    Task.objects.filter(job=job, not_before__isnull=False).update(not_before=None)
