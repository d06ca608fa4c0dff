"""By what right a running job holds its GPUs, the change of it in place, and the end of it."""

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
from portal.jobs.models import Allocation, Claim, Demotion, Job, JobAttempt, Standing, TaskAttempt
from portal.jobs.services.placement import Overtaken, Placed
from portal.jobs.services.transitions import job_event
from portal.jobs.services.usage_charge import usage_charge
from portal.jobs.services.words import gpus_named, job_named
from portal.jobs.states import AttemptState


def task_attempt_release(*, row: TaskAttempt, now: datetime) -> None:
    """Its end, and its last process is gone: CPU, memory, ports and GPUs are free again, and what it took is charged.
    Once for each row that was not uncharged."""
    usage_charge(rows=[row], until=now)
    task_attempt_free(row=row, now=now)


def task_attempt_free(*, row: TaskAttempt, now: datetime) -> None:
    """What it took is charged already, and now its last process is gone. Again: no change."""
    freed = TaskAttempt.objects.filter(pk=row.pk, released_at__isnull=True).update(released_at=now)
    Allocation.objects.filter(task_attempt=row, released_at__isnull=True).update(released_at=now)
    if freed:
        transaction.on_commit(scheduler_wake)


def task_attempt_uncharge(*, row: TaskAttempt, now: datetime) -> None:
    """Given up with its node, or ended while processes of it are left: it holds its GPUs there until they are seen
    free, but its team's quota no more, in which another job may start now. Once for each row."""
    usage_charge(rows=[row], until=now)
    _borrowed([row], now)


def job_promote(*, job: Job, placed: Sequence[Placed], now: datetime) -> None:
    """The job's borrowed GPUs become its team's own, each in its virtual cell. Inside the caller's transaction.

    Raises Overtaken when it ends already or does not hold them on loan; IntegrityError when a virtual cell has a
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
    if not on_loan.exists():
        Demotion.objects.filter(job=job).delete()
    message = f"Its {gpus_named(len(leaves))} are inside the quota of {job.vc.name} from now on."
    job_event(job=job, job_attempt=attempt, code="promoted", message=message, now=now)


def job_move_cells(*, job: Job, placed: Sequence[Placed]) -> None:
    """The job's guaranteed GPUs lie in other virtual cells of its team from now on: these have other names, its right
    is the one that it had. Inside the caller's transaction.

    Raises Overtaken when it ends already or does not hold them by right; IntegrityError when a virtual cell has a
    holder.
    """
    attempt = _attempt_live(job)
    tasks = {place.task_id for place in placed}
    cells = {leaf.gpu_id: leaf.virtual_cell for place in placed for leaf in place.leaves}
    rows = Allocation.objects.filter(
        leaf__in=cells, task_attempt__job_attempt=attempt, task_attempt__task__in=tasks, released_at__isnull=True
    )
    held = dict(rows.filter(standing=Standing.GUARANTEED).values_list("pk", "leaf"))
    # All leave their cells before one enters another's: neighbours may change places.
    left = Allocation.objects.filter(pk__in=held).update(virtual_cell="", standing=Standing.BORROWED)
    if left != len(cells):
        raise Overtaken
    for row, leaf in held.items():
        Allocation.objects.filter(pk=row).update(virtual_cell=cells[leaf], standing=Standing.GUARANTEED)


def job_demote(*, job: Job, task_attempts: Collection[UUID], cause: str, by: Job | None, now: datetime) -> None:
    """The guaranteed GPUs of these runs of its tasks count as borrowed from now on. Inside the caller's transaction.

    ``cause`` is the scheduler's word for it: of the job ``by``, or of a change. Raises Overtaken when the job ends
    already, or has begun anew.
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
    words = f"{job_named(by, to=job)} is owed their quota" if by else cause
    message = f"Its {gpus_named(count)} are on loan from now on and may be taken back: {words}."
    job_event(job=job, job_attempt=attempt, code="demoted", message=message, now=now)


def job_lend(*, attempt: JobAttempt, now: datetime) -> None:
    """All its guaranteed GPUs count as borrowed from now on, and what was kept for it is free. Inside the caller's
    transaction, which holds the job's row and makes it opportunistic."""
    held = TaskAttempt.objects.filter(job_attempt=attempt, released_at__isnull=True)
    rows = list(held.select_related("job_attempt__job"))
    usage_charge(rows=rows, until=now)
    _borrowed(rows, now)
    nodes = {row.node_id for row in rows}
    nodes_hold(nodes)
    # By what right cells are held has changed: no decision that was made before is carried out.
    Node.objects.filter(pk__in=nodes).update(placement_version=F("placement_version") + 1)
    Claim.objects.filter(claimant=attempt.job_id).delete()
    Demotion.objects.filter(job=attempt.job_id).delete()
    transaction.on_commit(scheduler_wake)


def rights_lose(*, leaves: Collection[int], virtual_cells: Collection[str], now: datetime) -> None:
    """Whoever holds one of these GPUs (row ids), or one of these virtual cells on another, is on loan from now on: its
    right has gone to the job that claims them. Inside the caller's transaction."""
    right = Q(leaf__in=leaves) | Q(virtual_cell__in=virtual_cells)
    lost = Allocation.objects.filter(right, released_at__isnull=True, standing=Standing.GUARANTEED)
    rows = TaskAttempt.objects.filter(pk__in=lost.values("task_attempt")).select_related("job_attempt__job")
    columns = ("started_at", "created_at", "cpu_milli", "memory_mb", "job_attempt__job__vc", "job_attempt__job__user")
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
    """Those of them that are held by the other right are held by this one from now on: in this virtual cell, or on loan
    without one. How many there were."""
    new, old = (Standing.GUARANTEED, Standing.BORROWED) if virtual_cell else (Standing.BORROWED, Standing.GUARANTEED)
    turns = Concat(F("turns"), Value(f" {now.isoformat()}"))
    return held.filter(standing=old).update(virtual_cell=virtual_cell, standing=new, since=now, turns=turns)
