"""Tasks that were lost with their node and come back with it: where no other attempt has begun, they go on, or what
they ended with counts. ``docs/decisions/node-faults.md`` has the table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q

from nodes.protocol import Cause, ContainerReport, ContainerState, Phase, StopReason
from portal.clusters.models import Node
from portal.common.wake import scheduler_wake
from portal.jobs.models import Allocation, Claim, Job, JobAttempt, Task, TaskAttempt
from portal.jobs.services.moves import job_event, job_hold
from portal.jobs.services.orders import nodes_bump
from portal.jobs.services.usage import usage_charge
from portal.jobs.states import AttemptState, EndReason, JobState, TaskState

_OWN_ENDS = frozenset({Cause.EXITED, Cause.OOM})
"""What a program ended with by itself. Who was killed from outside may have been so by the fault of its server."""

_SUCCEEDED = Q(state=str(ContainerState.TERMINATED), cause=str(Cause.EXITED), exit_code=0, lost_at=None)
_TOLD = frozenset({StopReason.LOST, StopReason.SIBLING})
"""Of a gang whose node was lost the first task is told to stop for that, the others with it."""


def lost_tasks_return(
    *, node: Node, rows: Iterable[TaskAttempt], reports: Mapping[str, ContainerReport], now: datetime
) -> None:
    """Take up what of ``rows``, those of the node, was lost with it, runs on or has ended by itself, and was not begun
    anew meanwhile. Whatever cannot be taken up stays given up, and is stopped."""
    back = [row for row in rows if _is_back(row, reports.get(str(row.pk)))]
    for attempt, same in groupby(sorted(back, key=lambda row: row.job_attempt_id), lambda row: row.job_attempt_id):
        with transaction.atomic():
            _take_up(attempt, [row.pk for row in same], node, now)


def _is_back(row: TaskAttempt, report: ContainerReport | None) -> bool:
    """Whether it was given up with its node, and the node tells that it runs, not having heard of its stop, or how it
    ended by itself."""
    if report is None or row.lost_at is None or row.stop_reason not in _TOLD or row.released_at is not None:
        return False
    if report.state is ContainerState.RUNNING:
        return report.generation < row.phase_since
    ended = report.state is ContainerState.TERMINATED and row.state != ContainerState.TERMINATED
    return ended and report.exit is not None and report.exit.cause in _OWN_ENDS


def came_too_late(row: TaskAttempt, report: ContainerReport) -> str:
    """Why a task that was taken up is given up once more: the order to stop it was on its way. Empty where nothing of
    that is so."""
    told = report.exit.stop_reason if report.exit is not None else None
    return f"Node {row.node.name} was lost." if told in _TOLD and not row.stop_reason else ""


def _take_up(attempt_id: int, keys: Sequence[UUID], node: Node, now: datetime) -> None:
    attempt = JobAttempt.objects.select_related("job__user").get(pk=attempt_id)
    job_hold(attempt.job_id)
    attempt.refresh_from_db()
    lost = TaskAttempt.objects.filter(pk__in=keys, lost_at__isnull=False, released_at=None, phase=Phase.STOP)
    rows = list(lost.select_related("task__role", "job_attempt__job").defer("spec_sealed"))
    if not attempt.job.gang:
        rows = [row for row in rows if _waits_alone(row, attempt)]
    leaves = Allocation.objects.filter(task_attempt__in=[row.pk for row in rows], released_at=None).values("leaf")
    if not rows or Claim.objects.filter(leaf__in=leaves).exclude(claimant=attempt.job_id).exists():
        return
    if attempt.job.gang and not _gang_back(attempt, rows):
        return
    _rows_go_on(rows, node)
    transaction.on_commit(scheduler_wake)
    for row in rows:
        words = f"Task {row.task.role.name}/{row.task.index} came back with node {node.name}."
        job_event(job=attempt.job, job_attempt=attempt, task_attempt=row, code="task_back", message=words, now=now)


def _waits_alone(row: TaskAttempt, attempt: JobAttempt) -> bool:
    """Of a job that is no gang: whether its attempt goes on, and the task waits to be run again."""
    going_on = attempt.state in {AttemptState.STARTING, AttemptState.RUNNING}
    newer = TaskAttempt.objects.filter(task=row.task_id, number__gt=row.number)
    return going_on and row.task.state == TaskState.WAITING and not newer.exists()


def _gang_back(attempt: JobAttempt, rows: Sequence[TaskAttempt]) -> bool:
    """Open the attempt again where nothing has begun since, and all its tasks are back or had succeeded before."""
    over = attempt.state == AttemptState.ENDED and attempt.end_reason == EndReason.NODE_LOST
    others = TaskAttempt.objects.filter(job_attempt=attempt).exclude(pk__in=[row.pk for row in rows])
    newer = attempt.job.attempts.filter(number__gt=attempt.number)
    if not over or others.exclude(_SUCCEEDED).exists() or newer.exists():
        return False
    state = AttemptState.RUNNING if attempt.started_at else AttemptState.STARTING
    waits = Job.objects.filter(pk=attempt.job_id, state=JobState.WAITING, paused=False)
    if not waits.update(
        state=JobState(state), not_before=None, waiting_code="", waiting_message="", waiting_numbers={}
    ):
        return False
    JobAttempt.objects.filter(pk=attempt.pk).update(
        state=state, ended_at=None, end_reason="", end_message="", end_behaviour="", exit_code=None
    )
    Claim.objects.filter(claimant=attempt.job_id).delete()
    Task.objects.filter(attempts__in=others).update(state=TaskState.SUCCEEDED)
    return True


def _rows_go_on(rows: Sequence[TaskAttempt], node: Node) -> None:
    """They hold their GPUs on loan, since their team has had its quota back: the next cycle puts them inside again
    where there is room. What was charged of those without GPUs is charged at their end, with the rest."""
    for row in rows:
        if row.lost_at is not None and not row.task.role.gpus:
            usage_charge(rows=[row], until=row.lost_at, back=True)
    generation = nodes_bump([node.pk])[node.pk]
    # Who may take these GPUs has changed: no decision that was made before is carried out.
    Node.objects.filter(pk=node.pk).update(placement_version=F("placement_version") + 1)
    TaskAttempt.objects.filter(pk__in=[row.pk for row in rows]).update(
        lost_at=None, phase=Phase.RUN, phase_since=generation, stop_reason="", stop_message="", stop_grace_s=0,
        stop_since=None,
    )  # fmt: skip
    for state, started in ((TaskState.RUNNING, False), (TaskState.STARTING, True)):
        tasks = [row.task_id for row in rows if (row.started_at is None) is started]
        Task.objects.filter(pk__in=tasks).update(state=state, not_before=None)
