"""Bulk actions on jobs, each job by itself: one that is refused does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime

from portal.accounts.models import User
from portal.accounts.rights import Action
from portal.common.errors import Refused
from portal.jobs.models import Job
from portal.jobs.selectors.visible import job_with_right
from portal.jobs.services.stop import job_stop
from portal.jobs.services.tags import job_tag

AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Done:
    """The result for one job; ``message``: why it was refused. ``label`` is empty if the actor may not see the job."""

    job: int
    label: str
    done: bool
    message: str = ""


def jobs_stop(*, jobs: Collection[int], actor: User, now: datetime) -> list[Done]:
    """Stops those of these jobs that the actor may stop, as ``job_stop`` does."""
    return _each(jobs, actor, Action.JOB_STOP, lambda job: job_stop(job=job, actor=actor, now=now))


def jobs_tag(
    *, jobs: Collection[int], add: Collection[str] = (), remove: Collection[str] = (), actor: User, now: datetime
) -> list[Done]:
    """Changes the tags of those of these jobs whose tags the actor may change, as ``job_tag`` does."""
    return _each(
        jobs, actor, Action.JOB_TAG, lambda job: job_tag(job=job, add=add, remove=remove, actor=actor, now=now)
    )


def _each(jobs: Collection[int], actor: User, action: Action, do: Callable[[Job], object]) -> list[Done]:
    return [_one(job, actor, action, do) for job in dict.fromkeys(jobs)]


def _one(job_id: int, actor: User, action: Action, do: Callable[[Job], object]) -> Done:
    label = ""
    try:
        job = job_with_right(user=actor, job_id=job_id, action=action)
        label = job.label
        do(job)
    except Refused as refusal:
        return Done(job_id, label, False, refusal.detail)
    return Done(job_id, label, True)
