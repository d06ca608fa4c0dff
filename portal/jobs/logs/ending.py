"""How a log ends: whole, or cut short with its server.

Nothing of this is stored: when the server comes back with the rest in its spool, the log is open again by itself.
"""

from __future__ import annotations

from portal.clusters.states import NodeHealth
from portal.jobs.models import TaskAttempt


def log_lost_with(row: TaskAttempt) -> str:
    """The server with which the rest of this log was lost; empty while more may come, and where nothing is missing.
    Needs the node loaded."""
    whole = row.log_complete and row.archived_to >= row.log_end
    gone = row.node.removed_at is not None or row.node.health == NodeHealth.LOST
    return row.node.name if gone and row.over and not whole else ""


def lost_line(node: str) -> str:
    """What stands where the rest would be; empty where nothing is missing."""
    return f"… the rest of this log was lost with node {node}\n" if node else ""
