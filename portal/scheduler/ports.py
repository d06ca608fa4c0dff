"""Nodes on which a job found too few free ports: the engine knows no ports, so for a while its plans leave such a node
out for that job.

Kept by this process alone: a start that is tried once more finds it out anew. All that is known of a job is forgotten
together, a while after the last of it was found, so that it meets every node again: ports come free as tasks end.
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
"""The code of the reason."""

OTHER_REASONS = frozenset(
    {
        scheduling.Code.PAUSED,
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
"""What a job would wait for with all of its nodes as well."""


class Short(NamedTuple):
    """Where a job found too few ports, and of how many a task of it needs."""

    nodes: frozenset[str]
    wanted: int
    submitted_ms: int  # a number alone may be another job's, in a database that was restored
    until: datetime


_found: dict[int, Short] = {}


def ports_note(*, error: NoPortLeft, now: datetime) -> None:
    """A start of this job failed for it."""
    job, submitted_ms = error.job.pk, int(error.job.submitted_at.timestamp() * 1000)
    before = _found.get(job)
    nodes = before.nodes if before and before.submitted_ms == submitted_ms else frozenset()
    _found[job] = Short(nodes | {error.node}, error.wanted, submitted_ms, now + KEPT_FOR)


def ports_short(*, now: datetime) -> Mapping[int, Short]:
    """What is known now, by the jobs' row ids; mostly nothing."""
    for job in [job for job, short in _found.items() if short.until <= now]:
        del _found[job]
    return _found


def ports_told(*, job: int, short: Short) -> Waiting:
    """The reason for people."""
    named = sorted(short.nodes)
    nodes = ", ".join(named[:MOST_NAMED]) + ("..." if len(named) > MOST_NAMED else "")
    message = (
        f"a task of it needs {short.wanted} free ports on its node; too few are free on {nodes} until tasks there end"
    )
    return Waiting(job_id=job, code=PORTS, message=message, numbers={"wanted": short.wanted, "nodes": nodes})
