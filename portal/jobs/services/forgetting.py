"""What is left of jobs on a server that is taken away."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from portal.clusters.models import Node
from portal.common.errors import Conflict
from portal.jobs.models import Allocation, Claim, TaskAttempt


def node_tasks_forget(*, node: Node, now: datetime) -> None:
    """Let go of what lost tasks still hold there. Raises Conflict while a task runs on it, or is about to."""
    with transaction.atomic():
        Node.objects.select_for_update().get(pk=node.pk)
        holding = TaskAttempt.objects.filter(node=node, released_at__isnull=True)
        if number := holding.filter(lost_at__isnull=True).count():
            tasks = "1 task runs" if number == 1 else f"{number} tasks run"
            raise Conflict(f"{tasks} on {node.name}: drain it, and remove it when they have ended.")
        if Claim.objects.filter(leaf__node=node).exists():
            raise Conflict(f"GPUs of {node.name} are kept for a job that starts in a moment: drain it first.")
        Allocation.objects.filter(task_attempt__in=holding, released_at__isnull=True).update(released_at=now)
        holding.update(released_at=now)
