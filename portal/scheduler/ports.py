"""Nodes on which a job found too few free ports: the engine knows no ports, so for a while its plans exclude such a
node for that job.

Kept by the scheduler only: another failed start finds it out again. Everything known of a job is forgotten together, a
while after its last finding, so that it may try every node again: ports come free as tasks end.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

import scheduling
from portal.jobs.services.placement import NoPortLeft
from portal.queue.services.waits import Waiting

KEPT_FOR = timedelta(minutes=1)
MOST_NAMED = 5
PORTS = "ports"
"""Code of the reason."""

OTHER_REASONS = frozenset(
    {
        scheduling.Code.PAUSED,
        scheduling.Code.PARKED,
        scheduling.Code.DEPENDENCY,
        scheduling.Code.USER_LIMIT,
        scheduling.Code.BORROW_LIMIT,
        scheduling.Code.LEND_LIMIT,
        scheduling.Code.LOANS_LOST,
        scheduling.Code.ORDER,
        scheduling.Code.PREEMPTING,
        "backoff",
    }
)
"""Reasons that would hold even with all of its nodes."""


class Short(NamedTuple):
    """Nodes where a job found too few ports, and how many a task needs."""

    nodes: frozenset[str]
    wanted: int
    submitted_ms: int  # the id alone may be another job's, in a restored database
    until: datetime


class PortShortages:
    """What was found lately, by job row id; usually nothing."""

    def __init__(self) -> None:
        self._found: dict[int, Short] = {}

    def note(self, *, error: NoPortLeft, now: datetime) -> None:
        """Record a start that failed for it."""
        job, submitted_ms = error.job.pk, int(error.job.submitted_at.timestamp() * 1000)
        before = self._found.get(job)
        nodes = before.nodes if before and before.submitted_ms == submitted_ms else frozenset()
        self._found[job] = Short(nodes | {error.node}, error.wanted, submitted_ms, now + KEPT_FOR)

    def current(self, *, now: datetime) -> Mapping[int, Short]:
        """Findings that are not too old."""
        self._found = {job: short for job, short in self._found.items() if short.until > now}
        return self._found


def ports_told(*, job: int, short: Short) -> Waiting:
    """Its reason in words."""
    named = sorted(short.nodes)
    nodes = ", ".join(named[:MOST_NAMED]) + ("..." if len(named) > MOST_NAMED else "")
    message = (
        f"a task of it needs {short.wanted} free ports on its node; too few are free on {nodes} until tasks there end"
    )
    return Waiting(job_id=job, code=PORTS, message=message, numbers={"wanted": short.wanted, "nodes": nodes})
