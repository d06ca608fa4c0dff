"""What follows once a node has emptied a GPU, or a parked job has its GPU again."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from django.db import transaction
from django.db.models import F, QuerySet

from nodes.protocol.messages import ContainerReport
from nodes.protocol.parking import GpuState, ParkFault
from nodes.protocol.states import ContainerState, Phase, StopReason
from portal.common.bulk import rows_insert
from portal.common.prepared import Prepared
from portal.common.sentences import said_by_node
from portal.common.told import amount_believed
from portal.common.wake import scheduler_wake
from portal.hardware.models import Node
from portal.hardware.services.generations import nodes_bump, nodes_hold
from portal.jobs.models import Allocation, Claim, TaskAttempt
from portal.jobs.services.allocation import parked_count
from portal.jobs.services.attempts import attempt_end
from portal.jobs.services.placement import Overtaken, Placed
from portal.jobs.services.transitions import job_event, job_hold
from portal.jobs.services.usage_charge import usage_charge
from portal.jobs.states import EndReason
from portal.parking import wordings
from portal.parking.models import Parking, ParkState
from portal.parking.selectors import OFF_GPU
from portal.parking.services.park import take_back
from portal.parking.services.places import Left, places_claim

MOST_TURNS = 1_000_000_000
"""A node that names a later turn is not believed: no portal has given it."""
FOR_GOOD = {ParkFault.PROCESSES, ParkFault.REFUSED}
"""Faults of the process itself, by which it cannot be parked later either."""


def parking_news(row: TaskAttempt, report: ContainerReport) -> bool:
    """Whether the report says anything new of a turn that its task was given, or of a later one. Only a task that runs,
    and is to run on, goes off its GPU or back."""
    ended = row.state == ContainerState.TERMINATED
    if report.state is not ContainerState.RUNNING or ended or row.phase != Phase.RUN:
        return False
    known = _known(row)
    turn = known.turn if known is not None else 0
    if known is None or report.turn != turn:
        return turn < report.turn <= MOST_TURNS
    if known.state == ParkState.PARKING:
        return report.gpu is GpuState.PARKED or (report.gpu is GpuState.HELD and report.fault is not None)
    if known.state == ParkState.RESUMING:
        return report.gpu is GpuState.HELD or (report.fault is not None and _fault(report) != known.fault)
    return False


def _known(row: TaskAttempt) -> Parking | None:
    return getattr(row, "parking", None)


def parking_reported(*, row: TaskAttempt, report: ContainerReport, now: datetime) -> None:
    """Takes in such a report, inside the caller's transaction, which holds the job's row. The row needs node, job
    attempt and job loaded."""
    if not parking_news(row, report):
        return
    known = _known(row)
    if known is None or report.turn > known.turn:
        _overtake(row, known, report.turn, now)
    elif known.state == ParkState.RESUMING:
        _resuming(row, known, report, now)
    elif report.gpu is GpuState.PARKED:
        _parked(row, known, report, now)
    else:
        known.never = report.fault is not None and report.fault.code in FOR_GOOD
        known.changed_at = now
        _move(row, known, ParkState.HELD, report, wordings.NOT_PARKED(why=_fault(report)), now)
        known.turn += 1  # so that its node holds the GPU by the newest order, too
        Parking.objects.filter(pk=known.pk).update(turn=known.turn)
        nodes_bump([row.node_id])


def _overtake(row: TaskAttempt, known: Parking | None, turn: int, now: datetime) -> None:
    """Says anew, by a higher turn than its node knows, what is wanted of the GPU: this portal was restored to before
    that turn. Nobody here has parked such a task, and its node may name as many turns as it likes: no event tells of
    its way back."""
    known = known or Parking(task_attempt=row, state=ParkState.HELD)
    known.turn = turn
    if row.parked_at is None:
        known.cause = ""
        take_back(known, now)
        return
    known.turn += 1
    known.save(update_fields=["turn"])
    nodes_bump([row.node_id])


def _parked(row: TaskAttempt, known: Parking, report: ContainerReport, now: datetime) -> None:
    """Gives its GPU up and claims it, in one step. A GPU that is no right of its job any more is taken back at once."""
    held = Allocation.objects.filter(task_attempt=row, released_at__isnull=True)
    leaves = list(held.values_list("leaf", "virtual_cell"))
    if not leaves or not all(cell for _, cell in leaves) or Claim.objects.filter(leaf__in=dict(leaves)).exists():
        take_back(known, now)
        return
    usage_charge(rows=[row], until=now)
    held.update(released_at=now)
    places_claim([Left(leaf, row.job_attempt.job_id, row.task_id, cell) for leaf, cell in leaves], now=now)
    TaskAttempt.objects.filter(pk=row.pk).update(parked_at=now)
    nodes_hold([row.node_id])
    Node.objects.filter(pk=row.node_id).update(placement_version=F("placement_version") + 1)
    known.parked_mb = min(amount_believed(report.parked_mb), row.node.memory_mb)
    known.changed_at = now
    _move(row, known, ParkState.PARKED, report, wordings.PARKED(mb=known.parked_mb, node=row.node.name), now)
    transaction.on_commit(scheduler_wake)


def _resuming(row: TaskAttempt, known: Parking, report: ContainerReport, now: datetime) -> None:
    if report.gpu is GpuState.HELD:
        lasted = wordings.SECONDS(number=round((now - known.changed_at).total_seconds()))
        known.changed_at = now
        _move(row, known, ParkState.HELD, report, wordings.GOES_ON(time=lasted), now)
    elif known.fault:  # what it waits for, told already, in newer numbers
        known.fault = _fault(report)
        known.save(update_fields=["fault"])
    else:
        _move(row, known, ParkState.RESUMING, report, wordings.WAITS(why=_fault(report)), now)


def _move(
    row: TaskAttempt, known: Parking, state: ParkState, report: ContainerReport, message: str, now: datetime
) -> None:
    known.state, known.fault = state, _fault(report)
    known.save()
    if known.cause:
        _tell(row, message, now)


def _tell(row: TaskAttempt, message: str, now: datetime) -> None:
    attempt = row.job_attempt
    job_event(job=attempt.job, job_attempt=attempt, task_attempt=row, code="parking", message=message, now=now)


def _fault(report: ContainerReport) -> str:
    return said_by_node(report.fault.message, report.fault.said) if report.fault is not None else ""


def tasks_resume(*, starts: Iterable[tuple[int, Placed]], now: datetime) -> None:
    """Gives these parked jobs (row ids) the GPUs that they claim, and orders their nodes to put them back there; inside
    the scheduler's transaction. Raises Overtaken when one is no longer parked, or does not want its GPU."""
    for job, placed in starts:
        row = _PARKED.filter(task=placed.task_id, job_attempt__job=job).first()
        if row is None or row.parking.state != ParkState.WANTED or row.parked_at is None:
            raise Overtaken
        if Claim.objects.filter(claimant=job, parked=True).delete()[0] != len(placed.leaves):
            raise Overtaken
        columns = ("task_attempt", "leaf", "virtual_cell", "standing", "since", "created_at")
        held = [(row.pk, leaf.gpu_id, leaf.virtual_cell, leaf.standing, now, now) for leaf in placed.leaves]
        rows_insert(Allocation, columns, held)
        TaskAttempt.objects.filter(pk=row.pk).update(parked_at=None)
        parked_count(attempt=row.job_attempt_id, since=row.parked_at, now=now)
        take_back(row.parking, row.parked_at)
        _tell(row, wordings.RESUMED(node=row.node.name), now)


def parked_check(*, jobs: Collection[int]) -> None:
    """Raises Overtaken unless all of these jobs (row ids) still want the GPUs that they claim and have lent. A query,
    none without jobs; inside the caller's transaction, which holds the jobs' rows."""
    want = {"parking__state": ParkState.WANTED, "job_attempt__job__claims__parked": True}
    if jobs and _PARKED.filter(job_attempt__job__in=jobs, **want).count() != len(jobs):
        raise Overtaken


_PARKED = (
    TaskAttempt.objects.filter(OFF_GPU)
    .select_related("parking", "node", "job_attempt__job")
    .defer("spec_sealed")  # large: each names all of its job's tasks
)


def parked_without_place(*, now: datetime) -> None:
    """Ends the attempts of parked jobs whose claim is gone: a higher priority of their team or a quota cut took their
    right. One query, and a transaction for each such attempt."""
    for key, job in _PLACE_LOST():
        with transaction.atomic():
            job_hold(job)
            if row := _place_lost().filter(pk=key).first():
                attempt_end(
                    attempt=row.job_attempt, reason=EndReason.PREEMPTED, message=wordings.PLACE_LOST(), now=now,
                    stop=StopReason.PREEMPTED,
                )  # fmt: skip


def _place_lost() -> QuerySet[TaskAttempt]:
    return _PARKED.exclude(job_attempt__job__claims__parked=True).filter(job_attempt__end_reason="")


_PLACE_LOST = Prepared(lambda: _place_lost().order_by().values_list("pk", "job_attempt__job"))
