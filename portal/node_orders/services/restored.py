"""Log rows after a restore of the database."""

from __future__ import annotations

from django.db.models import F

from nodes.protocol.states import Phase
from portal.jobs.models import TaskAttempt


def logs_told_anew() -> None:
    """Reopen logs that are still on their nodes, as far as they are archived: the nodes report again their length and
    that they are complete. Until then no container is removed, whose last lines may be in no archive. Logs of
    containers ordered removed were archived whole; a removed node reports nothing again."""
    open_logs = TaskAttempt.objects.filter(removed_at__isnull=True, node__removed_at__isnull=True)
    open_logs.exclude(phase=Phase.REMOVE).update(log_end=F("archived_to"), log_complete=False)
