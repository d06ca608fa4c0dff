"""Tasks that were lost with their node and return with it: if no other attempt has begun, they go on, or their result
counts. ``docs/decisions/node-faults.md`` has the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet

from nodes.protocol.messages import ContainerReport, Exit
from nodes.protocol.states import Cause, ContainerState, Phase, StopReason
from portal.common.prepared import Prepared, Slot
from portal.common.wake import scheduler_wake
from portal.hardware.models import Node
from portal.hardware.services.generations import nodes_bump
from portal.hardware.states import NodeHealth
from portal.jobs import wordings
from portal.jobs.models import Allocation, Claim, Job, JobAttempt, Task, TaskAttempt, TaskRole
from portal.jobs.services.attempts import tasks_stop
from portal.jobs.services.transitions import job_event, job_hold
from portal.jobs.services.usage_charge import usage_charge
from portal.jobs.states import AttemptState, EndReason, JobState, TaskState
from portal.parking.services.places import places_claim, places_left

_OWN_ENDS = frozenset({Cause.EXITED, Cause.OOM})
"""Causes of a program's own end. One killed from outside may have been so by its node's fault."""

_SUCCEEDED = Q(state=str(ContainerState.TERMINATED), cause=str(Cause.EXITED), exit_code=0)
_LOST = Q(lost_at__isnull=False, released_at=None, phase__in=[Phase.STOP, Phase.RUN])
_LOST &= ~Q(state=str(ContainerState.TERMINATED))
"""In phase ``run``: it is back and waits for the other nodes of its gang."""
_TOLD = frozenset({StopReason.LOST, StopReason.SIBLING})
"""Stop reasons in a gang whose node was lost: of the first task, and of its siblings."""


def lost_tasks_return(
    *, node: Node, rows: Iterable[TaskAttempt], reports: Mapping[str, ContainerReport], now: datetime
) -> None:
    """Take up those of ``rows``, the node's, that were lost with it, still run or have ended by themselves, and were
    not restarted meanwhile. Anything else stays given up, and is stopped."""
    back = [row for row in rows if _is_back(row, reports.get(str(row.pk)))]
    for attempt, same in groupby(sorted(back, key=lambda row: row.job_attempt_id), lambda row: row.job_attempt_id):
        with transaction.atomic():
            _take_up(attempt, {row.pk: reports[str(row.pk)].exit for row in same}, now)


def _is_back(row: TaskAttempt, report: ContainerReport | None) -> bool:
    """Whether it was given up with its node, and the node now reports it running, unaware of its stop, or ended by
    itself."""
    if report is None or row.lost_at is None or row.stop_reason not in _TOLD or row.released_at is not None:
        return False
    waits = row.phase == Phase.RUN  # for the other nodes of its gang, never told to stop
    if not waits and (row.stop_since is None or row.stop_since > row.lost_at):
        return False  # it waited in vain
    if report.state is ContainerState.RUNNING:
        return waits or report.generation < row.phase_since
    ended = report.state is ContainerState.TERMINATED and row.state != ContainerState.TERMINATED
    return ended and report.exit is not None and report.exit.cause in _OWN_ENDS


def came_too_late(row: TaskAttempt, report: ContainerReport) -> str:
    """Why a task that was taken up is given up again: its stop order was already on its way. Empty if that does not
    apply."""
    told = report.exit.stop_reason if report.exit is not None else None
    return wordings.NODE_LOST(node=row.node.name) if told in _TOLD and not row.stop_reason else ""


def _take_up(attempt_id: int, back: Mapping[UUID, Exit | None], now: datetime) -> None:
    """Resumes tasks. ``back``: those a node brought back, and their ends."""
    attempt = JobAttempt.objects.select_related("job__user").get(pk=attempt_id)
    job_hold(attempt.job_id)
    attempt.refresh_from_db()
    lost = TaskAttempt.objects.filter(_LOST, Q(pk__in=back) | Q(phase=Phase.RUN), job_attempt=attempt)
    rows = list(lost.select_related("task__role", "job_attempt__job", "node").defer("spec_sealed"))
    rows = [row for row in rows if not row.alone or _waits_alone(row, attempt)]
    leaves = Allocation.objects.filter(task_attempt__in=[row.pk for row in rows], released_at=None).values("leaf")
    others = Claim.objects.filter(leaf__in=leaves, parked=False).exclude(claimant=attempt.job_id)
    if not rows or others.exists() or (left := places_left(rows)) is None:
        return
    if not all(row.alone for row in rows) and not _gang_back(attempt, rows, back, now):
        return
    places_claim(left, now=now)
    _rows_go_on(rows)
    transaction.on_commit(scheduler_wake)
    for row in rows:
        words = wordings.TASK_BACK(task=f"{row.task.role.name}/{row.task.index}", node=row.node.name)
        job_event(job=attempt.job, job_attempt=attempt, task_attempt=row, code="task_back", message=words, now=now)


def _waits_alone(row: TaskAttempt, attempt: JobAttempt) -> bool:
    """Of a task without siblings to wait for: whether its attempt goes on, and the task waits for a retry."""
    going_on = attempt.state in {AttemptState.STARTING, AttemptState.RUNNING}
    newer = TaskAttempt.objects.filter(task=row.task_id, number__gt=row.number)
    return going_on and row.task.state == TaskState.WAITING and not newer.exists()


def _gang_back(
    attempt: JobAttempt, rows: Sequence[TaskAttempt], back: Mapping[UUID, Exit | None], now: datetime
) -> bool:
    """Reopen the attempt if nothing has begun since, and all its tasks are back or had succeeded, or enough succeeded,
    extra tasks aside. While all missing ones may still return with their nodes, those that run wait for them."""
    over = attempt.state == AttemptState.ENDED and attempt.end_reason == EndReason.NODE_LOST
    waits = Job.objects.filter(pk=attempt.job_id, state=JobState.WAITING, paused=False)
    if not over or not waits.exists() or attempt.job.attempts.filter(number__gt=attempt.number).exists():
        return False
    whole = TaskAttempt.objects.filter(job_attempt=attempt).exclude(task__index__gte=F("task__role__least"))
    others = whole.exclude(pk__in=[row.pk for row in rows])
    well = [row for row in rows if _is_well(back.get(row.pk))]
    failed = any(end is not None and not _is_well(end) for end in back.values())
    if failed and whole.order_by().values("node").distinct().count() > 1:
        return False  # perhaps because it could not reach the others
    missing = others.exclude(_SUCCEEDED)
    if missing.exists() and not _enough(attempt, others, well):
        if not missing.exclude(_LOST, node__health=NodeHealth.LOST, node__removed_at=None).exists():
            _rows_wait([row for row in rows if row not in well and row.phase == Phase.STOP], now)
        return False
    state = AttemptState.RUNNING if attempt.started_at else AttemptState.STARTING
    waits.update(state=JobState(state), not_before=None, waiting_code="", waiting_message="", waiting_numbers={})
    JobAttempt.objects.filter(pk=attempt.pk).update(
        state=state, ended_at=None, end_reason="", end_message="", end_behaviour="", exit_code=None
    )
    Claim.objects.filter(claimant=attempt.job_id).delete()
    Task.objects.filter(attempts__in=missing).update(state=TaskState.STOPPED)
    Task.objects.filter(attempts__in=others.filter(_SUCCEEDED)).update(state=TaskState.SUCCEEDED)
    return True


def _is_well(end: Exit | None) -> bool:
    return end is not None and (end.cause, end.code) == (Cause.EXITED, 0)


def _enough(attempt: JobAttempt, others: QuerySet[TaskAttempt], well: Sequence[TaskAttempt]) -> bool:
    """Whether enough tasks of a role succeeded to complete the job."""
    done = Counter(others.filter(_SUCCEEDED).values_list("task__role", flat=True))
    done.update(row.task.role_id for row in well)
    return any(1 <= role.min_succeeded <= done[role.pk] for role in TaskRole.objects.filter(job=attempt.job_id))


def _rows_wait(rows: Sequence[TaskAttempt], now: datetime) -> None:
    """Cancels their stop; still lost, they decide nothing."""
    for node, generation in nodes_bump(row.node_id for row in rows).items():
        here = [row.pk for row in rows if row.node_id == node]
        TaskAttempt.objects.filter(pk__in=here).update(phase=Phase.RUN, phase_since=generation, stop_since=now)


def gangs_wait_no_longer(*, now: datetime) -> None:
    """Stop returned tasks that wait for the rest of their gang, once the job has moved on, or the rest has not returned
    within the time after which a node is lost."""
    before = now - timedelta(seconds=settings.NODE_LOST_AFTER_S)
    for job in {*_IN_VAIN(before=before)}:
        with transaction.atomic():
            job_hold(job)
            rows = _in_vain(before).filter(job_attempt__job=job)
            for row in rows.select_related("node").defer("spec_sealed"):
                message = wordings.NODE_GIVEN_UP(node=row.node.name)
                tasks_stop([row], reason=StopReason.LOST, message=message, grace_s=0, now=now)


def _in_vain(before: datetime | Slot) -> QuerySet[TaskAttempt]:
    goes_on = Q(stop_since__gte=before, job_attempt__job__state=JobState.WAITING, job_attempt__job__paused=False)
    return TaskAttempt.objects.filter(_LOST, phase=Phase.RUN).exclude(goes_on)


_IN_VAIN = Prepared(lambda: _in_vain(Slot("before", datetime)).order_by().values_list("job_attempt__job", flat=True))


def _rows_go_on(rows: Sequence[TaskAttempt]) -> None:
    """Resumes the tasks. Their GPUs are on loan, since the team has had its quota back: the next cycle promotes them if
    there is room. What was charged of those without GPUs is charged at their end, with the rest."""
    for row in rows:
        if row.lost_at is not None and not row.task.role.gpus:
            usage_charge(rows=[row], until=row.lost_at, back=True)
    generations = nodes_bump(row.node_id for row in rows)
    # Who may take these GPUs has changed: earlier decisions must not be carried out.
    Node.objects.filter(pk__in=generations).update(placement_version=F("placement_version") + 1)
    for node, generation in generations.items():
        TaskAttempt.objects.filter(pk__in=[row.pk for row in rows if row.node_id == node]).update(
            lost_at=None, phase=Phase.RUN, phase_since=generation, stop_reason="", stop_message="", stop_grace_s=0,
            stop_since=None,
        )  # fmt: skip
    for state, started in ((TaskState.RUNNING, False), (TaskState.STARTING, True)):
        tasks = [row.task_id for row in rows if (row.started_at is None) is started]
        Task.objects.filter(pk__in=tasks).update(state=state, not_before=None)
