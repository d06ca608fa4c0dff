"""Container reports of nodes. Move forward only; late and repeated ones change nothing."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError, transaction
from django.db.models import F, QuerySet

from nodes.protocol.messages import ContainerReport, Exit
from nodes.protocol.states import Cause, ContainerState, Phase, moves_forward, reached
from portal.common.prepared import Prepared, Slot
from portal.common.sentences import said_by_node
from portal.common.told import LONGEST_LOG, amount_believed, perhaps_believed
from portal.hardware.models import Node
from portal.hardware.services.generations import nodes_bump
from portal.jobs import wordings
from portal.jobs.exits import CAUSES
from portal.jobs.models import Task, TaskAttempt
from portal.jobs.services.allocation import task_attempt_free, task_attempt_release, task_attempt_uncharge
from portal.jobs.services.attempts import (
    attempt_digest_note,
    attempt_run_when_prepared,
    attempt_running,
)
from portal.jobs.services.outcome import task_attempt_ended
from portal.jobs.services.transitions import job_announce, job_event, job_hold, tasks_move
from portal.jobs.states import TaskState
from portal.node_orders.services.returned import came_too_late, lost_tasks_return
from portal.node_orders.services.ssh import ssh_hint, ssh_reported
from portal.node_orders.services.unknown_containers import strangers_take
from portal.parking.services.moves import parking_news, parking_reported

log = logging.getLogger(__name__)

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|process")
"""Image digest; the process runtime has none, and says so."""
WORD, SENTENCE, TAIL = 40, 2000, 4096
"""Characters kept of a container's report: of a word; of a sentence, which appears in lists, events and mails of
everybody who may see the job; and of its last output."""


def containers_report(*, node: Node, generation: int, containers: Iterable[ContainerReport], now: datetime) -> None:
    """Take in a full report of ``node``: each container in its own transaction, so that one's failure does not block
    the others. Raises OperationalError or InterfaceError if the database itself fails."""
    rows = {str(row.pk): row for row in _OF_NODE(node=node.pk)}
    reports = {report.attempt: report for report in containers}
    with _alone(node, "tasks that come back"):
        lost_tasks_return(node=node, rows=rows.values(), reports=reports, now=now)
    for attempt_id, report in reports.items():
        if attempt_id in rows:
            with _alone(node, attempt_id):
                container_report(row=rows[attempt_id], report=_believed(report), now=now)
    for attempt_id, row in rows.items():
        if attempt_id not in reports and row.phase == Phase.REMOVE and generation >= row.phase_since:
            with _alone(node, attempt_id):
                _removed(row, now)
    with _alone(node, "unknown containers"):
        strangers_take(node=node, reports=[report for key, report in reports.items() if key not in rows], now=now)


def _believed(told: ContainerReport) -> ContainerReport:
    """The report with numbers that fit columns, and texts that fit pages."""
    end, progress, fault = told.exit, told.progress, told.fault
    return replace(
        told,
        isolation=told.isolation[:WORD],
        container=told.container[:64],
        log_dropped_lines=amount_believed(told.log_dropped_lines),
        exit=end and replace(
            end, code=perhaps_believed(end.code), signal=perhaps_believed(end.signal), message=end.message[:SENTENCE],
            log_tail=end.log_tail[-TAIL:],
        ),
        fault=fault and replace(fault, code=fault.code[:WORD], message=fault.message[:SENTENCE]),
        progress=progress and replace(
            progress, code=progress.code[:WORD], percent=perhaps_believed(progress.percent),
            message=progress.message[:SENTENCE],
        ),
    )  # fmt: skip


@contextmanager
def _alone(node: Node, what: str) -> Iterator[None]:
    """Isolates and logs a failure."""
    try:
        yield
    except (InterfaceError, OperationalError):
        raise
    except Exception:
        log.exception("what %s reports of %s cannot be taken in; the rest of its report is", node.name, what)


def _rows() -> QuerySet[TaskAttempt]:
    rows = TaskAttempt.objects.select_related("task__role", "node", "job_attempt__job__user", "parking")
    return rows.defer("spec_sealed")  # large: each names all of its job's tasks


_OF_NODE = Prepared(lambda: _rows().filter(node_id=Slot("node", int), removed_at__isnull=True).order_by())
_ONE = Prepared(lambda: _rows().filter(pk=Slot("attempt", UUID)).order_by())


def container_report(*, row: TaskAttempt, report: ContainerReport, now: datetime) -> bool:
    """Take in the report on one task attempt. True if something changed."""
    if not _news(row, report, now):
        return False
    with transaction.atomic():
        job_hold(row.job_attempt.job_id)
        (row,) = _ONE(attempt=row.pk)
        if not _news(row, report, now):
            return False
        forward = moves_forward(ContainerState(row.state), report.state)
        fields = _changed(row, report, now)
        if forward:
            fields |= {**_times(row, report, now), "state": report.state}
        TaskAttempt.objects.filter(pk=row.pk).update(**fields)
        for name, value in fields.items():
            setattr(row, name, value)
        if "digest" in fields and row.phase == Phase.RUN:
            attempt_digest_note(row=row)
        if "ssh" in fields and (hint := ssh_hint(row)):
            job_event(
                job=row.job_attempt.job, job_attempt=row.job_attempt, task_attempt=row, code="hint", message=hint,
                now=now,
            )  # fmt: skip
        parking_reported(row=row, report=report, now=now)
        if forward:
            _reached(row, report, now)
        else:
            if _let_go(row, report):
                task_attempt_free(row=row, now=now)
            job_announce(row.job_attempt.job)
        attempt_log_done(row=row)
    return True


def _news(row: TaskAttempt, report: ContainerReport, now: datetime) -> bool:
    """Whether the report adds anything to this row: none made for an earlier spec does, and no older state."""
    if not reached(report.state, ContainerState.STARTING) and report.spec_hash != row.spec_hash:
        return False
    forward = moves_forward(ContainerState(row.state), report.state)
    return forward or _let_go(row, report) or parking_news(row, report) or bool(_changed(row, report, now))


def _let_go(row: TaskAttempt, report: ContainerReport) -> bool:
    """Whether an ended container's last process has left its GPUs. If one outlives SIGKILL, CPU and memory are held as
    well, until it is removed."""
    ended = row.state == ContainerState.TERMINATED and row.released_at is None
    return ended and row.cause != Cause.UNKILLABLE and not report.gpus


def _changed(row: TaskAttempt, report: ContainerReport, now: datetime) -> dict[str, Any]:
    progress = (
        {"code": report.progress.code, "percent": report.progress.percent, "message": report.progress.message}
        if report.progress
        else {}
    )
    told = {
        "digest": _digest(report) or row.digest,
        "isolation": report.isolation or row.isolation,
        "container": report.container or row.container,
        "progress": progress,
        "lease_over_at": now if _lease_over(row, progress) else row.lease_over_at,
        "checkpoint_at": _checkpoint(row, report, now),
        "ssh": ssh_reported(row, report),
        "log_end": min(max(report.log_end, row.log_end), LONGEST_LOG),
        "log_complete": report.log_complete or row.log_complete,
        "log_dropped_lines": max(report.log_dropped_lines, row.log_dropped_lines),
    }
    return {name: value for name, value in told.items() if getattr(row, name) != value}


def _digest(report: ContainerReport) -> str:
    """The digest other nodes will run as well: never anything that could be another image's name there."""
    return report.digest if report.digest is not None and _DIGEST.fullmatch(report.digest) else ""


def _lease_over(row: TaskAttempt, progress: Mapping[str, Any]) -> bool:
    return row.progress.get("code") == "lease" and progress.get("code") != "lease"


def _checkpoint(row: TaskAttempt, report: ContainerReport, now: datetime) -> datetime | None:
    """When this run last saved its work. Files left by an earlier run in the job folder do not count; nor does a future
    time, yet."""
    told = report.checkpoint_ms
    if told is None or row.started_at is None:
        return row.checkpoint_at
    last = row.checkpoint_at or row.started_at
    return _time(told, now) if _ms(last) < told <= _ms(now) else row.checkpoint_at


def _times(row: TaskAttempt, report: ContainerReport, now: datetime) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if report.prepared_ms and row.prepared_at is None:
        fields["prepared_at"] = _time(report.prepared_ms, now)
    if report.started_ms and row.started_at is None:
        fields["started_at"] = _time(report.started_ms, now)
    if report.state is ContainerState.TERMINATED:
        end = report.exit
        fields |= {
            "ended_at": _time(report.ended_ms, now) if report.ended_ms else now,
            "cause": end.cause if end else Cause.VANISHED,
            "exit_code": end.code if end else None,
            "exit_signal": end.signal if end else None,
            "exit_message": _exit_message(row, end) if end else "",
            "oom_seen": end is not None and end.oom_seen,
            "log_tail": end.log_tail if end else "",
        }
    return fields


def _exit_message(row: TaskAttempt, end: Exit) -> str:
    """What the node says of the end; of a task that was told to end, the reason that it was given."""
    stopped: str = row.stop_message
    if not end.message:
        return ""
    if end.message == stopped:
        return stopped
    return said_by_node(end.message, end.said)


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


EARLIEST_MS, DAY_MS = 946_684_800_000, 86_400_000
"""The year 2000, and a day."""


def _time(unix_ms: int, now: datetime) -> datetime:
    """A time by the node's clock. Impossible ones become now: pages cannot even show the year 1, or 100,000."""
    possible = EARLIEST_MS <= unix_ms <= _ms(now) + DAY_MS
    return datetime.fromtimestamp(unix_ms / 1000, tz=UTC) if possible else now


def _reached(row: TaskAttempt, report: ContainerReport, now: datetime) -> None:
    """Handles a move forward: event and consequences."""
    attempt, name = row.job_attempt, f"{row.task.role.name}/{row.task.index}"
    state = ContainerState(row.state)
    job_event(
        job=attempt.job, job_attempt=attempt, task_attempt=row, code=f"task_{state}", now=now,
        message=wordings.TASK_ON(task=name, node=row.node.name, why=_words(row, state)),
    )  # fmt: skip
    if row.lost_at is not None:
        if _let_go(row, report):
            task_attempt_free(row=row, now=now)
        return
    if state is ContainerState.PREPARED:
        attempt_run_when_prepared(attempt=attempt, now=now)
    elif state is ContainerState.RUNNING:
        tasks_move(Task.objects.filter(pk=row.task_id), TaskState.RUNNING)
        attempt_running(attempt=attempt, now=now)
    elif state is ContainerState.TERMINATED:
        if row.started_at is not None:
            tasks_move(Task.objects.filter(pk=row.task_id), TaskState.RUNNING)
            attempt_running(attempt=attempt, now=now)
        if _let_go(row, report):
            task_attempt_release(row=row, now=now)
        else:
            task_attempt_uncharge(row=row, now=now)
        task_attempt_ended(row=row, now=now, given_up=came_too_late(row, report))


_MOVES = {
    ContainerState.PULLING: wordings.PULLING,
    ContainerState.PREPARED: wordings.PREPARED,
    ContainerState.STARTING: wordings.STARTS,
    ContainerState.RUNNING: wordings.TASK_RUNS,
}


def _words(row: TaskAttempt, state: ContainerState) -> str:
    if state is not ContainerState.TERMINATED:
        return _MOVES[state]()
    cause = CAUSES[Cause(row.cause)]()
    return (
        wordings.ENDED(cause=cause) if row.exit_code is None else wordings.ENDED_WITH(code=row.exit_code, cause=cause)
    )


def attempt_log_done(*, row: TaskAttempt) -> bool:
    """Order the container's removal once it has ended and its whole log is archived."""
    with transaction.atomic():
        job_hold(row.job_attempt.job_id)
        ready = TaskAttempt.objects.filter(
            pk=row.pk, state=ContainerState.TERMINATED, log_complete=True, archived_to__gte=F("log_end")
        ).exclude(phase=Phase.REMOVE)
        if not ready.exists():
            return False
        generation = nodes_bump([row.node_id])[row.node_id]
        return bool(ready.update(phase=Phase.REMOVE, phase_since=generation, spec_sealed=""))


def _removed(row: TaskAttempt, now: datetime) -> None:
    with transaction.atomic():
        TaskAttempt.objects.filter(pk=row.pk, removed_at__isnull=True).update(removed_at=now)
        task_attempt_free(row=row, now=now)
