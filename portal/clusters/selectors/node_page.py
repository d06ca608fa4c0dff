"""One node: what runs on it, and what happened to it."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db.models import F

from portal.clusters.models import Node, NodeEvent

MOST_EVENTS = 50


class NodeTask(NamedTuple):
    """A task on the node. Whom its job may be shown to says ``job_sight``."""

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

    @property
    def label(self) -> str:
        """``user/name#run``."""
        return f"{self.username}/{self.job_name}#{self.run}"


_TASK = "task_attempts__"
_JOB = f"{_TASK}task__job__"
_COLUMNS = (
    f"{_TASK}pk",
    *(f"{_JOB}{name}" for name in ("id", "name", "run", "user_id", "user__username", "vc_id", "vc__name")),
    *(f"{_TASK}{name}" for name in ("task__role__name", "task__index")),
    *(f"{_TASK}{name}" for name in ("state", "cpu_milli", "memory_mb", "created_at", "started_at")),
)


def node_tasks(*, node: Node) -> list[NodeTask]:
    """What holds something on it, the oldest first. One query."""
    rows = Node.objects.filter(pk=node.pk, task_attempts__isnull=False, task_attempts__released_at__isnull=True)
    return [NodeTask(*row) for row in rows.order_by(F(f"{_TASK}created_at")).values_list(*_COLUMNS)]


def node_events(*, node: Node) -> list[NodeEvent]:
    """What happened to it, the newest first."""
    return list(node.events.order_by("-id")[:MOST_EVENTS])
