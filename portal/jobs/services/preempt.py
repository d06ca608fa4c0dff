"""GPUs are taken back: the job that is owed them claims them, and those that hold them are told to end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from uuid import UUID

from nodes.protocol import Phase, StopReason
from portal.jobs.models import Allocation, Job, JobAttempt, Preemption, Standing, TaskAttempt
from portal.jobs.services.attempts import LIVE, attempts_end, tasks_stop
from portal.jobs.services.claims import claims_make
from portal.jobs.services.holding import rights_lose
from portal.jobs.services.moves import job_announce, job_event
from portal.jobs.services.placing import Placed
from portal.jobs.services.words import gpus_named, job_named, jobs_named
from portal.jobs.states import EndReason, JobState

PREEMPTING = "preempting"
"""Why a job waits that has claimed what others still hold."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Runs of tasks of a job (task attempts' ids) that must end, and the time they have for it."""

    job_id: int
    task_attempts: tuple[UUID, ...]
    grace_s: int


def job_preempt(*, job: Job, placed: Sequence[Placed], victims: Sequence[Taken], now: datetime) -> None:
    """Claim the leaves of ``placed`` for the job and tell the victims to end, all in the caller's transaction, which
    holds every job's row and has checked the nodes' versions.

    Who holds what is claimed holds it on loan from now on, so that the job may also start where GPUs are free at once.
    A victim that ends already, or has ended, is told nothing: its GPUs are claimed all the same. Raises Overtaken
    when the job waits no more.
    """
    claims_make(job=job, placed=placed, now=now)
    told = _victims_end(victims, job, now)
    leaves = [leaf for place in placed for leaf in place.leaves]
    rights_lose(leaves=[leaf.gpu_id for leaf in leaves], virtual_cells=[leaf.virtual_cell for leaf in leaves], now=now)
    if told:
        _tell(job, told, now)


def _victims_end(victims: Sequence[Taken], job: Job, now: datetime) -> list[Preemption]:
    """Tell those that go on to end; the gangs among them as a whole, and equal ones together."""
    grace = {attempt: taken.grace_s for taken in victims for attempt in taken.task_attempts}
    rows = list(
        TaskAttempt.objects.filter(LIVE, pk__in=grace, phase__in=[Phase.PREPARE, Phase.RUN], job_attempt__end_reason="")
        .select_related("task__role", "job_attempt__job__user", "job_attempt__job__vc")
        .order_by("job_attempt_id", "id")
    )
    held, own = _held(rows)
    told, gangs = [], defaultdict(list)
    for attempt, group in groupby(rows, key=lambda row: row.job_attempt):
        tasks = list(group)
        why = "which has a higher priority" if attempt.pk in own else "which is owed the GPUs that it had on loan"
        message = f"Preempted by {job_named(job, to=attempt.job)}, {why}."
        grace_s = grace[tasks[0].pk]
        if attempt.job.gang:
            gangs[message, grace_s].append(attempt)
        else:
            _tasks_end(attempt, tasks, message, grace_s, now)
        told.append(_preemption(job, attempt, tasks, held[attempt.pk], now, grace_s))
    for (message, grace_s), attempts in gangs.items():
        attempts_end(
            attempts=attempts, reason=EndReason.PREEMPTED, message=message, now=now, stop=StopReason.PREEMPTED,
            grace_s=grace_s,
        )  # fmt: skip
    return Preemption.objects.bulk_create(told)


def _held(rows: Sequence[TaskAttempt]) -> tuple[Counter[int], set[int]]:
    """By job attempt the GPUs that these tasks hold, and the attempts that hold some inside their quota."""
    leaves = Allocation.objects.filter(task_attempt__in=[row.pk for row in rows], released_at__isnull=True)
    found = list(leaves.order_by().values_list("task_attempt__job_attempt", "standing"))
    return Counter(key for key, _ in found), {key for key, standing in found if standing == Standing.GUARANTEED}


def _tasks_end(attempt: JobAttempt, rows: Sequence[TaskAttempt], message: str, grace_s: int, now: datetime) -> None:
    tasks_stop(rows, reason=StopReason.PREEMPTED, message=message, grace_s=grace_s)
    for row in rows:
        job_event(
            job=attempt.job, job_attempt=attempt, task_attempt=row, code="task_preempted", now=now,
            message=f"Task {row.task.role.name}/{row.task.index}: {message}",
        )  # fmt: skip


def _preemption(
    job: Job, attempt: JobAttempt, tasks: Sequence[TaskAttempt], gpus: int, now: datetime, grace_s: int
) -> Preemption:
    return Preemption(
        preemptor=job, victim=attempt, tasks=len(tasks), gpus=gpus, at=now, deadline=now + timedelta(seconds=grace_s)
    )


def _tell(job: Job, told: Sequence[Preemption], now: datetime) -> None:
    message = preempting_words(job=job, told=told)
    job_event(job=job, code=PREEMPTING, message=f"{message}.", now=now)
    Job.objects.filter(pk=job.pk, state=JobState.WAITING).update(
        waiting_code=PREEMPTING, waiting_message=message, waiting_written_at=now,
        waiting_numbers={"gpus": sum(one.gpus for one in told), "victims": len(told)},
    )  # fmt: skip
    job_announce(job)


def preempting_words(*, job: Job, told: Sequence[Preemption]) -> str:
    """Whom the job waits for, and until when, for its own readers. The victims come with job, user and VC."""
    names = jobs_named([one.victim.job for one in told], to=job)
    until = max(one.deadline for one in told)
    return f"{gpus_named(sum(one.gpus for one in told))} of {names} are taken back for it by {until:%H:%M:%S} UTC"
