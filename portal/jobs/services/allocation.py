"""Allocations of running jobs: promotion, demotion, moves between virtual cells, and release."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q, QuerySet, Value
from django.db.models.functions import Concat

from portal.common.wake import scheduler_wake
from portal.hardware.models import Node
from portal.hardware.services.generations import nodes_hold
from portal.jobs import wordings
from portal.jobs.models import Allocation, Claim, Demotion, Job, JobAttempt, Standing, TaskAttempt
from portal.jobs.services.placement import Overtaken, Placed
from portal.jobs.services.transitions import job_event
from portal.jobs.services.usage_charge import usage_charge
from portal.jobs.services.words import job_named
from portal.jobs.states import AttemptState


def task_attempt_release(*, row: TaskAttempt, now: datetime) -> None:
    """Frees the CPU, memory, ports and GPUs of an ended task attempt whose last process is gone, and charges its usage.
    Call once per row, and not for one already uncharged."""
    usage_charge(rows=[row], until=now)
    task_attempt_free(row=row, now=now)


def task_attempt_free(*, row: TaskAttempt, now: datetime) -> None:
    """Frees a task attempt that is already charged, once its last process is gone. Idempotent."""
    freed = TaskAttempt.objects.filter(pk=row.pk, released_at__isnull=True).update(released_at=now)
    if freed and row.parked_at is not None:
        parked_count(attempt=row.job_attempt_id, since=row.parked_at, now=now)
    Allocation.objects.filter(task_attempt=row, released_at__isnull=True).update(released_at=now)
    if freed:
        transaction.on_commit(scheduler_wake)


def parked_count(*, attempt: int, since: datetime, now: datetime) -> None:
    """Takes the time since then, in which a task was parked, out of the time limit of its job attempt (row id)."""
    off = max(0, round((now - since).total_seconds()))
    JobAttempt.objects.filter(pk=attempt).update(parked_s=F("parked_s") + off)


def task_attempt_uncharge(*, row: TaskAttempt, now: datetime) -> None:
    """Takes a task attempt off its team's quota: it was given up with its node, or ended with processes left. It holds
    its GPUs until they are seen free, but another job may start in the quota now. Call once per row."""
    usage_charge(rows=[row], until=now)
    _borrowed([row], now)


def job_promote(*, job: Job, placed: Sequence[Placed], now: datetime) -> None:
    """Moves the job's borrowed GPUs into its team's quota, each in its virtual cell. Inside the caller's transaction.

    Raises Overtaken when the job is ending or does not hold them on loan; IntegrityError when a virtual cell has a
    holder.
    """
    attempt = _attempt_live(job)
    leaves = [(place.task_id, leaf) for place in placed for leaf in place.leaves]
    for task_id, leaf in leaves:
        held = Allocation.objects.filter(leaf=leaf.gpu_id, task_attempt__task=task_id, released_at__isnull=True)
        changed = _turn(held, virtual_cell=leaf.virtual_cell, now=now)
        if not changed and not held.filter(virtual_cell=leaf.virtual_cell).exists():
            raise Overtaken
    on_loan = Allocation.objects.filter(task_attempt__job_attempt=attempt, released_at=None, standing=Standing.BORROWED)
    if not on_loan.exclude(task_attempt__task__index__gte=F("task_attempt__task__role__least")).exists():
        Demotion.objects.filter(job=job).delete()
    message = wordings.PROMOTED(gpus=wordings.GPUS(number=len(leaves)), vc=job.vc.name)
    job_event(job=job, job_attempt=attempt, code="promoted", message=message, now=now)


def job_move_cells(*, job: Job, placed: Sequence[Placed]) -> None:
    """Rebinds the job's guaranteed GPUs to other virtual cells of its team; its right stays the same. Inside the
    caller's transaction.

    Raises Overtaken when the job is ending or does not hold them by right; IntegrityError when a virtual cell has a
    holder.
    """
    attempt = _attempt_live(job)
    tasks = {place.task_id for place in placed}
    cells = {leaf.gpu_id: leaf.virtual_cell for place in placed for leaf in place.leaves}
    rows = Allocation.objects.filter(
        leaf__in=cells, task_attempt__job_attempt=attempt, task_attempt__task__in=tasks, released_at__isnull=True
    )
    held = dict(rows.filter(standing=Standing.GUARANTEED).values_list("pk", "leaf"))
    # Vacate all cells before entering any: neighbours may swap.
    left = Allocation.objects.filter(pk__in=held).update(virtual_cell="", standing=Standing.BORROWED)
    if left != len(cells):
        raise Overtaken
    for row, leaf in held.items():
        Allocation.objects.filter(pk=row).update(virtual_cell=cells[leaf], standing=Standing.GUARANTEED)


def job_demote(*, job: Job, task_attempts: Collection[UUID], cause: str, by: Job | None, now: datetime) -> None:
    """Turns the guaranteed GPUs of these task attempts into borrowed ones. Inside the caller's transaction.

    ``cause`` is the scheduler's word: of the job ``by``, or of a change. Raises Overtaken when the job is ending or has
    started anew.
    """
    attempt = _attempt_live(job)
    rows = list(
        TaskAttempt.objects.filter(pk__in=task_attempts, job_attempt=attempt, released_at__isnull=True).select_related(
            "job_attempt__job"
        )
    )
    if not rows:
        raise Overtaken
    usage_charge(rows=rows, until=now)
    count = _borrowed(rows, now)
    Demotion.objects.update_or_create(job=job, defaults={"cause": cause, "created_at": now})
    why = wordings.OWED_QUOTA(job=job_named(by, to=job)) if by else cause
    message = wordings.DEMOTED(gpus=wordings.GPUS(number=count), why=why)
    job_event(job=job, job_attempt=attempt, code="demoted", message=message, now=now)


def job_lend(*, attempt: JobAttempt, now: datetime) -> None:
    """Turns all guaranteed GPUs of the attempt into borrowed ones, and drops its job's claims. Inside the caller's
    transaction, which holds the job's row and makes the job opportunistic."""
    held = TaskAttempt.objects.filter(job_attempt=attempt, released_at__isnull=True)
    rows = list(held.select_related("job_attempt__job"))
    usage_charge(rows=rows, until=now)
    _borrowed(rows, now)
    nodes = {row.node_id for row in rows}
    nodes_hold(nodes)
    # Rights have changed: invalidate decisions made before.
    Node.objects.filter(pk__in=nodes).update(placement_version=F("placement_version") + 1)
    Claim.objects.filter(claimant=attempt.job_id).delete()
    Demotion.objects.filter(job=attempt.job_id).delete()
    transaction.on_commit(scheduler_wake)


def rights_lose(*, leaves: Collection[int], virtual_cells: Collection[str], now: datetime) -> None:
    """Turns holders of these GPUs (row ids), or of these virtual cells on others, into borrowers: their right has gone
    to the job that claims them. Inside the caller's transaction."""
    right = Q(leaf__in=leaves) | Q(virtual_cell__in=virtual_cells)
    lost = Allocation.objects.filter(right, released_at__isnull=True, standing=Standing.GUARANTEED)
    rows = TaskAttempt.objects.filter(pk__in=lost.values("task_attempt")).select_related("job_attempt__job")
    columns = (
        "started_at", "created_at", "parked_at", "cpu_milli", "memory_mb",
        "job_attempt__job__vc", "job_attempt__job__user",
    )  # fmt: skip
    if losers := list(rows.only(*columns)):
        usage_charge(rows=losers, until=now)
    _turn(lost, virtual_cell="", now=now)


def _attempt_live(job: Job) -> JobAttempt:
    attempt = job.attempts.filter(state__in=[AttemptState.STARTING, AttemptState.RUNNING]).first()
    if attempt is None:
        raise Overtaken
    return attempt


def _borrowed(rows: Iterable[TaskAttempt], now: datetime) -> int:
    held = Allocation.objects.filter(task_attempt__in=[row.pk for row in rows], released_at__isnull=True)
    return _turn(held, virtual_cell="", now=now)


def _turn(held: QuerySet[Allocation], *, virtual_cell: str, now: datetime) -> int:
    """Flips those held by the other right to this one: into this virtual cell, or on loan without one. Returns how
    many."""
    new, old = (Standing.GUARANTEED, Standing.BORROWED) if virtual_cell else (Standing.BORROWED, Standing.GUARANTEED)
    turns = Concat(F("turns"), Value(f" {now.isoformat()}"))
    return held.filter(standing=old).update(virtual_cell=virtual_cell, standing=new, since=now, turns=turns)
