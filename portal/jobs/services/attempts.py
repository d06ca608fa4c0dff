"""A placed job attempt's life: its tasks start together, and it ends once, through one function."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import OuterRef, Q, Subquery

from nodes.protocol.states import ContainerState, Phase, StopReason
from nodes.protocol.wording import stored
from portal.common.bulk import rows_insert, rows_update
from portal.common.moves import sources
from portal.hardware.models import Node
from portal.hardware.services.generations import nodes_bump, nodes_hold
from portal.job_file.model import JobSpec
from portal.jobs import wordings
from portal.jobs.models import JobAttempt, JobEvent, TaskAttempt
from portal.jobs.services.placement import Overtaken
from portal.jobs.services.transitions import attempt_move, job_hold, job_move, jobs_announce
from portal.jobs.states import ATTEMPT_MOVES, AttemptState, EndReason, JobState

LIVE = Q(lost_at__isnull=True) & ~Q(state=str(ContainerState.TERMINATED))
"""Task attempts that still decide something."""


# ---------------------------------------------------------------- starting together


def attempt_run_when_prepared(*, attempt: JobAttempt, now: datetime) -> bool:
    """Orders the start once every task that must start together is prepared with one digest per image.

    Holds the job's row from here on: of two concurrent last PREPARED reports, one then sees both.
    """
    with transaction.atomic():
        job_hold(attempt.job_id)
        if not JobAttempt.objects.filter(pk=attempt.pk, end_reason="").exists():
            return False
        live = TaskAttempt.objects.filter(LIVE, job_attempt=attempt)
        rows = list(live.select_related("task__role").defer("spec_sealed"))
        ready = [row for row in rows if row.phase == Phase.PREPARE and row.state == ContainerState.PREPARED]
        if attempt.job.gang and len(ready) < len(rows):
            return False
        settled = _digests_settle(attempt, ready)
        if attempt.job.gang and len(settled) < len(ready):
            return False
        return _phase_order(settled, Phase.RUN)


def _digests_settle(attempt: JobAttempt, ready: list[TaskAttempt]) -> list[TaskAttempt]:
    """The tasks that have the attempt's digest; others are told to prepare it. A task without a digest from its node
    waits until its preparation times out."""
    attempt.refresh_from_db(fields=["digests"])
    images = {role.name: role.image.uri for role in JobSpec.from_json(attempt.job.spec).roles}
    digests = dict(attempt.digests)
    settled: list[TaskAttempt] = []
    other: list[TaskAttempt] = []
    for row in filter(lambda row: row.digest, ready):
        image = images[row.task.role.name]
        agreed = digests.setdefault(image, row.digest)
        (settled if row.digest == agreed else other).append(row)
    if digests != attempt.digests:
        JobAttempt.objects.filter(pk=attempt.pk).update(digests=digests)
    for row in other:
        TaskAttempt.objects.filter(pk=row.pk).update(
            pinned_digest=digests[images[row.task.role.name]], state=ContainerState.ACCEPTED, spec_hash=""
        )
    nodes_bump({row.node_id for row in other})
    return settled


def attempt_digest_note(*, row: TaskAttempt) -> None:
    """Records the digest of a task that did not wait for others as the attempt's; inside the caller's transaction,
    which holds the job's row."""
    attempt = row.job_attempt
    attempt.refresh_from_db(fields=["digests"])
    image = JobSpec.from_json(attempt.job.spec).role(row.task.role.name).image.uri
    if image not in attempt.digests and row.digest:
        JobAttempt.objects.filter(pk=attempt.pk).update(digests={**attempt.digests, image: row.digest})


def _phase_order(rows: Iterable[TaskAttempt], phase: Phase, **columns: Any) -> bool:
    """Orders the phase for those not already ordered further; three queries, however many there are."""
    ids = {row.pk: row.node_id for row in rows}
    nodes_bump(ids.values())
    before = [Phase.PREPARE] if phase is Phase.RUN else [Phase.PREPARE, Phase.RUN]
    generation = Node.objects.filter(pk=OuterRef("node")).values("generation")
    ordered = TaskAttempt.objects.filter(pk__in=ids, phase__in=before) if ids else TaskAttempt.objects.none()
    ordered.update(phase=phase, phase_since=Subquery(generation), **columns)
    return bool(ids)


def attempt_running(*, attempt: JobAttempt, now: datetime) -> None:
    """Marks the attempt running: a gang once all its tasks have run, any other with its first."""
    rows = TaskAttempt.objects.filter(job_attempt=attempt)
    if attempt.job.gang and rows.filter(started_at__isnull=True).exists():
        return
    with transaction.atomic():
        message = wordings.ATTEMPT_RUNS(number=attempt.number)
        if attempt_move(
            attempt, AttemptState.RUNNING, now=now, code="attempt_running", message=message, started_at=now
        ):
            job = attempt.job
            job_move(
                job, JobState.RUNNING, now=now, code="running", message=wordings.RUNS(job=job.label),
                started_at=job.started_at or now,
            )  # fmt: skip


# ---------------------------------------------------------------- ending


def attempt_end(
    *,
    attempt: JobAttempt,
    reason: EndReason,
    message: str,
    now: datetime,
    behaviour: str = "",
    exit_code: int | None = None,
    stop: StopReason = StopReason.SIBLING,
    grace_s: int | None = None,
) -> bool:
    """Sets the attempt's end reason, once, and tells its live tasks to stop. False: it already had one."""
    with transaction.atomic():
        job_hold(attempt.job_id)
        attempt_is_first = attempt_move(
            attempt, AttemptState.ENDING, now=now, code=f"ending_{reason}", message=message,
            end_reason=reason, end_message=message, end_behaviour=behaviour, exit_code=exit_code,
        )  # fmt: skip
        if attempt_is_first:
            # Lock all nodes at once and in order, ended tasks' too: what follows may also change those rows.
            there = TaskAttempt.objects.filter(job_attempt=attempt, removed_at__isnull=True)
            nodes_hold(there.order_by().values_list("node", flat=True))
            live = TaskAttempt.objects.filter(LIVE, job_attempt=attempt)
            tasks_stop(live, reason=stop, message=message, grace_s=grace_s, now=now)
    return attempt_is_first


@dataclass(frozen=True, slots=True)
class Ending:
    """An attempt, with its job, that is told to end: the reason and its tasks' grace in seconds."""

    attempt: JobAttempt
    message: str
    grace_s: int


def attempts_end(*, endings: Sequence[Ending], reason: EndReason, stop: StopReason, now: datetime) -> None:
    """Ends several attempts at once, inside the caller's transaction, which holds their jobs' rows. Raises Overtaken
    when one of them is already ending."""
    told = {one.attempt.pk: one for one in endings}
    going_on = JobAttempt.objects.filter(pk__in=told, state__in=sources(ATTEMPT_MOVES, AttemptState.ENDING))
    if going_on.update(state=AttemptState.ENDING, end_reason=reason) != len(told):
        raise Overtaken
    messages = [(key, one.message) for key, one in told.items()]
    rows_update(JobAttempt, ("end_message",), messages, only={"state": AttemptState.ENDING})
    events = [(one.attempt.job_id, key, now, f"ending_{reason}", stored(one.message)) for key, one in told.items()]
    rows_insert(JobEvent, ("job", "job_attempt", "at", "code", "data"), events)
    jobs_announce([one.attempt.job for one in endings])
    live = TaskAttempt.objects.filter(LIVE, job_attempt__in=told, phase__in=[Phase.PREPARE, Phase.RUN])
    rows = list(live.only("phase", "node_id", "job_attempt_id"))
    _phase_order(rows, Phase.STOP, stop_reason=stop, stop_since=now)
    stops = [(row.pk, told[row.job_attempt_id].message, told[row.job_attempt_id].grace_s) for row in rows]
    # Keep the message of those already told to stop.
    only = {"phase": Phase.STOP, "stop_message": ""}
    rows_update(TaskAttempt, ("stop_message", "stop_grace_s"), stops, only=only)


def tasks_stop(
    rows: Iterable[TaskAttempt], *, reason: StopReason, message: str, now: datetime, grace_s: int | None = None
) -> None:
    """Orders these task attempts to stop, inside the caller's transaction; those ordered before keep their reason."""
    grace = settings.DEFAULT_GRACE_S if grace_s is None else grace_s
    running = [row for row in rows if row.phase in {Phase.PREPARE, Phase.RUN}]
    stops = {"stop_reason": reason, "stop_message": message, "stop_grace_s": grace, "stop_since": now}
    _phase_order(running, Phase.STOP, **stops)
