"""Which jobs are parked, and whether one can be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from django.db.models import Q, QuerySet, Sum

from nodes.protocol.parking import SUSPEND
from nodes.protocol.states import ContainerState, Phase
from nodes.protocol.wording import told
from portal.common.prepared import Prepared
from portal.hardware.inventories import PARK_FAULT
from portal.hardware.models import Node
from portal.job_file.model import JobSpec
from portal.jobs.models import Allocation, Job, Task, TaskAttempt
from portal.jobs.services.words import job_named
from portal.jobs.states import AttemptState, JobState
from portal.parking import wordings
from portal.parking.models import Parking, ParkState

OFF_GPU = Q(parked_at__isnull=False, released_at__isnull=True, lost_at__isnull=True, phase=str(Phase.RUN))
"""Filter for task attempts that are parked and go on once they have their GPU back."""


class ParkedTask(NamedTuple):
    """The task of a parked job, whether it wants its GPU back, and MB of its server's memory that it takes beyond its
    own."""

    role: str
    number: int  # the task's index in its role
    wanted: bool
    parked_mb: int


def parked_tasks() -> dict[int, ParkedTask]:
    """By job (row id), the one task of each parked job. One query."""
    return {job: ParkedTask(role, index, state == ParkState.WANTED, mb) for job, role, index, state, mb in _PARKED()}


def _parked() -> QuerySet[TaskAttempt, Any]:
    columns = ("job_attempt__job", "task__role__name", "task__index", "parking__state", "parking__parked_mb")
    return TaskAttempt.objects.filter(OFF_GPU).order_by().values_list(*columns)


_PARKED = Prepared(_parked)


def parking_of(job: Job) -> Parking | None:
    """How parking stands with the job's task, while that is to run on; None: nobody has asked for it."""
    found = Parking.objects.filter(task_attempt__job_attempt__job=job, task_attempt__released_at__isnull=True)
    live = found.filter(task_attempt__lost_at__isnull=True, task_attempt__phase=Phase.RUN)
    return live.select_related("task_attempt__node").first()


def parking_in(attempt: Any) -> QuerySet[Parking]:
    """What is parked in this job attempt (row id, or a reference to one), or on its way there or back."""
    there = Parking.objects.filter(task_attempt__job_attempt=attempt, task_attempt__released_at__isnull=True)
    return there.exclude(state=ParkState.HELD)


def park_mark(*, jobs: Iterable[Job]) -> None:
    """Sets ``parked`` on the running ones of these jobs: where it stands, in words; empty: on its GPU. One query; none
    if none runs."""
    running = [job for job in jobs if job.state == JobState.RUNNING]
    off = Parking.objects.exclude(state=ParkState.HELD).exclude(task_attempt__job_attempt__state=AttemptState.ENDED)
    rows = off.filter(task_attempt__job_attempt__job__in=[job.pk for job in running])
    marked = dict(rows.values_list("task_attempt__job_attempt__job", "state")) if running else {}
    for job in running:
        job.__dict__["parked"] = ParkState(marked[job.pk]).label if job.pk in marked else ""


def gpu_lent_to(job: Job) -> str:
    """Who has the GPU of a parked job now, as its own readers may know it; empty: nobody."""
    lent = Allocation.objects.filter(released_at__isnull=True, leaf__claim__claimant=job, leaf__claim__parked=True)
    row = lent.select_related("task_attempt__job_attempt__job__user", "task_attempt__job_attempt__job__vc").first()
    return job_named(row.task_attempt.job_attempt.job, to=job) if row is not None else ""


def parking_told(job: Job) -> Parking | None:
    """How parking stands with the job, for pages and programs: with who has its GPU now, as ``lent_to``."""
    known = parking_of(job) if job.state == JobState.RUNNING else None
    if known is not None:
        off = known.state in (ParkState.PARKED, ParkState.WANTED)
        known.lent_to = gpu_lent_to(job) if off else ""
    return known


def task_to_park(job: Job) -> TaskAttempt | str:
    """The task attempt of the job that can be parked, or why none can: a declared sentence."""
    rows = TaskAttempt.objects.filter(job_attempt__job=job, released_at__isnull=True, lost_at__isnull=True)
    live = list(rows.exclude(job_attempt__state=AttemptState.ENDED).select_related("node", "parking"))
    held = Allocation.objects.filter(task_attempt__in=live, released_at__isnull=True)
    cells = list(held.values_list("virtual_cell", flat=True))
    if not job.vc.parking:
        return wordings.NOT_HERE(vc=job.vc.name)
    if JobSpec.from_json(job.spec).berth.park == "never":
        return wordings.NEVER()
    if len(live) != 1 or len(cells) != 1 or Task.objects.filter(job=job).count() != 1:
        return wordings.NOT_ONE()
    row = live[0]
    if row.state != ContainerState.RUNNING or row.phase != Phase.RUN or row.stop_reason:
        return wordings.NOT_RUNNING()
    if not cells[0]:
        return wordings.ON_LOAN()
    if (known := getattr(row, "parking", None)) is not None and known.never:
        fault: str = known.fault
        return fault
    return cannot_park(row.node) or row


def node_parked_mb(node: Node) -> int:
    """MB of the server's memory that parked tasks take there."""
    there = Parking.objects.filter(task_attempt__node=node, task_attempt__parked_at__isnull=False)
    return there.filter(task_attempt__released_at__isnull=True).aggregate(mb=Sum("parked_mb"))["mb"] or 0


def cannot_park(node: Node) -> str:
    """Why this server parks nothing; empty: it does."""
    if SUSPEND in node.inventory.get("capabilities", ()):
        return ""
    return wordings.NOT_THERE(node=node.name, why=told(node.inventory.get(PARK_FAULT)) or wordings.OLD_AGENT())
