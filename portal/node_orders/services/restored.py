"""What a database says of logs that was put back to what it was."""

from __future__ import annotations

from django.db.models import F

from nodes.protocol.states import Phase
from portal.jobs.models import TaskAttempt


def logs_told_anew() -> None:
    """Take logs that are still on their nodes for open ones, known as far as they are archived: how long they are, and
    that nothing more comes, the nodes say again. Until then no container goes, whose end may be in no archive. Those
    whose removal was ordered were archived whole; of a server that was removed nobody says anything again."""
    open_logs = TaskAttempt.objects.filter(removed_at__isnull=True, node__removed_at__isnull=True)
    open_logs.exclude(phase=Phase.REMOVE).update(log_end=F("archived_to"), log_complete=False)
