"""Preemption: the job that is owed GPUs claims them, and those that hold them are told to end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from uuid import UUID

from nodes.protocol.states import Phase, StopReason
from nodes.protocol.wording import stored
from portal.common.bulk import rows_insert, rows_update
from portal.jobs import wordings
from portal.jobs.models import Allocation, Job, JobAttempt, JobEvent, Preemption, TaskAttempt
from portal.jobs.services.allocation import rights_lose
from portal.jobs.services.attempts import LIVE, Ending, attempts_end, tasks_stop
from portal.jobs.services.claims import claims_make
from portal.jobs.services.placement import Placed
from portal.jobs.services.transitions import job_event, jobs_announce
from portal.jobs.services.words import NAMED, job_named, jobs_named
from portal.jobs.states import EndReason, JobState

PREEMPTING = "preempting"
"""Waiting code of a job that has claimed what others still hold."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A job's task attempts (ids) that must end, and their grace."""

    job_id: int
    task_attempts: tuple[UUID, ...]
    grace_s: int


@dataclass(frozen=True, slots=True)
class Preempting:
    """A job, with the columns of ``NAMED``, the places that it is owed, and the victims that must end for them.
    ``parked``: it claims these places already, and lent them."""

    job: Job
    placed: Sequence[Placed]
    victims: Sequence[Taken]
    parked: bool = False


def jobs_preempt(*, wants: Sequence[Preempting], now: datetime) -> None:
    """Claims the leaves for each job and tells the victims to end, all in the caller's transaction, which holds every
    job's row and has checked the nodes' versions.

    Holders of claimed cells hold them on loan from now on, so that the jobs may also start where GPUs are free at once.
    A victim that is ending or has ended is told nothing: its GPUs are claimed all the same. Raises Overtaken when one
    of the jobs no longer waits.
    """
    claims_make([(one.job, one.placed) for one in wants if not one.parked], now=now)
    told = _victims_end(wants, now)
    leaves = [leaf for one in wants for place in one.placed for leaf in place.leaves]
    rights_lose(leaves=[leaf.gpu_id for leaf in leaves], virtual_cells=[leaf.virtual_cell for leaf in leaves], now=now)
    _tell([one.job for one in wants], told, now)


def _victims_end(wants: Sequence[Preempting], now: datetime) -> list[Preemption]:
    """Tells victims not yet ending to end, each for the first job that names it; gangs as a whole and together, but for
    extra tasks of elastic roles."""
    taken = _by_first(wants)
    rows = TaskAttempt.objects.filter(
        LIVE, pk__in=taken, phase__in=[Phase.PREPARE, Phase.RUN], job_attempt__end_reason=""
    ).select_related("task__role", "job_attempt__job__user", "job_attempt__job__vc")
    rows = rows.only(
        "phase",
        "node_id",
        "task__index",
        *(f"task__role__{one}" for one in ("name", "instances", "least")),
        *(f"job_attempt__job__{one}" for one in NAMED),
    )
    ordered = sorted(rows, key=lambda row: (row.job_attempt_id, taken[row.pk][0], row.pk))
    held, own = _held(ordered)
    wanted = {one.job.pk: {leaf.virtual_cell for place in one.placed for leaf in place.leaves} for one in wants}
    told, gangs = [], []
    for (attempt, _), group in groupby(ordered, key=lambda row: (row.job_attempt, taken[row.pk][0])):
        tasks = list(group)
        _, job, grace_s = taken[tasks[0].pk]
        by_right = any(not own[row.pk].isdisjoint(wanted[job.pk]) for row in tasks)
        alone = all(row.alone for row in tasks)
        # Without a virtual cell the job itself borrows, displacing extra tasks or a lower priority of its team.
        higher = by_right or "" in wanted[job.pk]
        why = wordings.HIGHER() if higher else _owed(any(own[row.pk] for row in tasks))
        if alone and attempt.job.gang:
            why = wordings.EXTRA_TAKEN()
        message = wordings.PREEMPTED(job=job_named(job, to=attempt.job), why=why)
        if alone:
            _tasks_end(attempt, tasks, message, grace_s, now)
        else:
            gangs.append(Ending(attempt, message, grace_s))
        gpus = sum(held[row.pk] for row in tasks)
        on_loan = not by_right and not (alone and attempt.job.gang)
        told.append(_preemption(job, attempt, len(tasks), gpus, now, grace_s, on_loan=on_loan))
    if gangs:
        attempts_end(endings=gangs, reason=EndReason.PREEMPTED, stop=StopReason.PREEMPTED, now=now)
    return Preemption.objects.bulk_create(told)


def _by_first(wants: Sequence[Preempting]) -> dict[UUID, tuple[int, Job, int]]:
    """By task attempt: the first job that wants it to end, that job's place in the list, and the grace."""
    taken: dict[UUID, tuple[int, Job, int]] = {}
    for number, one in enumerate(wants):
        for victim in one.victims:
            for attempt in victim.task_attempts:
                taken.setdefault(attempt, (number, one.job, victim.grace_s))
    return taken


def _owed(has_cells: bool) -> str:
    """What a victim that loses no right gives back: its GPUs, or if those are its own, what it uses beyond them."""
    return wordings.OWED_REST() if has_cells else wordings.OWED_GPUS()


def _held(rows: Sequence[TaskAttempt]) -> tuple[Counter[UUID], Mapping[UUID, set[str]]]:
    """How many GPUs each of these task attempts holds, and in which virtual cells."""
    leaves = Allocation.objects.filter(task_attempt__in=[row.pk for row in rows], released_at__isnull=True)
    held, cells = Counter[UUID](), defaultdict[UUID, set[str]](set)
    for key, cell in leaves.order_by().values_list("task_attempt", "virtual_cell"):
        held[key] += 1
        cells[key].update([cell] if cell else ())
    return held, cells


def _tasks_end(attempt: JobAttempt, rows: Sequence[TaskAttempt], message: str, grace_s: int, now: datetime) -> None:
    tasks_stop(rows, reason=StopReason.PREEMPTED, message=message, grace_s=grace_s, now=now)
    for row in rows:
        job_event(
            job=attempt.job, job_attempt=attempt, task_attempt=row, code="task_preempted", now=now,
            message=wordings.OF_TASK(task=f"{row.task.role.name}/{row.task.index}", why=message),
        )  # fmt: skip


def _preemption(
    job: Job, attempt: JobAttempt, tasks: int, gpus: int, now: datetime, grace_s: int, *, on_loan: bool
) -> Preemption:
    deadline = now + timedelta(seconds=grace_s)
    return Preemption(preemptor=job, victim=attempt, tasks=tasks, gpus=gpus, on_loan=on_loan, at=now, deadline=deadline)


def _tell(jobs: Sequence[Job], preemptions: Iterable[Preemption], now: datetime) -> None:
    """Tells each job whom it waits for; jobs for which nobody had to be told wait for nobody new."""
    by_job = defaultdict(list)
    for one in preemptions:
        by_job[one.preemptor_id].append(one)
    waits, events = [], []
    for job in (one for one in jobs if one.pk in by_job):
        told = by_job[job.pk]
        message = preempting_words(job=job, told=told)
        events.append((job.pk, now, PREEMPTING, stored(message)))
        waits.append((job.pk, message.removesuffix("."), {"gpus": sum(one.gpus for one in told), "victims": len(told)}))
    if not waits:
        return
    rows_insert(JobEvent, ("job", "at", "code", "data"), events)
    jobs_announce(job for job in jobs if job.pk in by_job)
    rows_update(
        Job,
        ("waiting_message", "waiting_numbers"),
        waits,
        every={"waiting_code": PREEMPTING, "waiting_written_at": now},
        only={"state": JobState.WAITING},
    )


def preempting_words(*, job: Job, told: Sequence[Preemption]) -> str:
    """Whom the job waits for, and until when, for its own readers. The victims need job, user and VC loaded."""
    names = jobs_named([one.victim.job for one in told], to=job)
    until = max(one.deadline for one in told)
    gpus = sum(one.gpus for one in told)
    return wordings.PREEMPTS(number=gpus, jobs=names, time=f"{until:%H:%M:%S}")
