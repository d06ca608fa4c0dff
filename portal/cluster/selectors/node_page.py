"""One node's page: its tasks and events."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db.models import F

from nodes.protocol.states import Phase, StopReason
from portal.hardware.models import Node, NodeEvent
from portal.hardware.states import NodeIntent

MOST_EVENTS = 50
DRAIN_ASKED = f"intent_{NodeIntent.DRAINING}"
"""The event of a drain; it stores the number of tasks then."""


class NodeTask(NamedTuple):
    """A task on the node. ``job_sight`` says who may see its job."""

    attempt: UUID
    job_id: int
    job_name: str
    run: int
    user_id: int
    username: str
    vc_id: int
    vc: str
    role: str
    number: int
    state: str
    cpu_milli: int
    memory_mb: int
    created_at: datetime
    started_at: datetime | None
    parked_at: datetime | None
    phase: str
    stop_reason: str
    grace_s: int
    attempt_started_at: datetime | None
    attempt_parked_s: int
    time_limit_s: int | None

    @property
    def label(self) -> str:
        """``user/name#run``."""
        return f"{self.username}/{self.job_name}#{self.run}"

    def gone_by(self, drained_at: datetime) -> datetime | None:
        """When it will have ended at the latest, on a node drained then: at its time limit, which stands still while
        it is parked, or when the grace of its drain is over; None if neither is known."""
        ends = []
        if self.attempt_started_at and self.time_limit_s and self.parked_at is None:
            ends.append(self.attempt_started_at + timedelta(seconds=self.time_limit_s + self.attempt_parked_s))
        if self.phase == Phase.STOP and self.stop_reason == StopReason.DRAINED:
            ends.append(drained_at + timedelta(seconds=self.grace_s))
        return min(ends, default=None)


class Drain(NamedTuple):
    """Progress of a drain: tasks that held resources on the node when it was requested, and how many are gone."""

    asked_at: datetime
    tasks: int
    gone: int

    @property
    def left(self) -> int:
        """How many remain."""
        return self.tasks - self.gone


_TASK = "task_attempts__"
_JOB = f"{_TASK}task__job__"
_COLUMNS = (
    f"{_TASK}pk",
    *(f"{_JOB}{name}" for name in ("id", "name", "run", "user_id", "user__username", "vc_id", "vc__name")),
    *(f"{_TASK}{name}" for name in ("task__role__name", "task__index")),
    *(f"{_TASK}{name}" for name in ("state", "cpu_milli", "memory_mb", "created_at", "started_at", "parked_at")),
    *(f"{_TASK}{name}" for name in ("phase", "stop_reason", "stop_grace_s")),
    *(f"{_TASK}job_attempt__{name}" for name in ("started_at", "parked_s")),
    f"{_JOB}spec__berth__time_limit_s",
)


def node_tasks(*, node: Node) -> list[NodeTask]:
    """Tasks that hold resources on it, oldest first. One query."""
    rows = Node.objects.filter(pk=node.pk, task_attempts__isnull=False, task_attempts__released_at__isnull=True)
    return [NodeTask(*row) for row in rows.order_by(F(f"{_TASK}created_at"), f"{_TASK}pk").values_list(*_COLUMNS)]


def node_drain(*, node: Node, left: int) -> Drain | None:
    """Progress of its drain with ``left`` tasks remaining; None if it is not being drained. One query."""
    asked = node.events.filter(code=DRAIN_ASKED).order_by("-id").first() if node.intent == NodeIntent.DRAINING else None
    if asked is None:
        return None
    tasks = max(left, asked.data.get("tasks", 0))
    return Drain(asked.at, tasks, tasks - left)


def node_events(*, node: Node) -> list[NodeEvent]:
    """Its events, newest first."""
    return list(node.events.order_by("-id")[:MOST_EVENTS])
