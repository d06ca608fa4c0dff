"""Nodes that a job avoids for a while after they failed it, where it can; how long depends on the fault."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

from nodes.protocol.states import Cause
from portal.hardware.outages import LATE
from portal.jobs.models import Job

ENDLESS = "endless"
"""A cause besides those that nodes report and ``LATE``: a task was told to end there, and did not."""

_PASSING, _USUAL, _LONGEST = timedelta(minutes=5), timedelta(minutes=15), timedelta(minutes=30)
_FADES = {
    Cause.NO_SPACE: _PASSING,
    Cause.PORT_TAKEN: _PASSING,
    Cause.IMAGE_AWAY: _PASSING,
    LATE: _LONGEST,
    ENDLESS: _LONGEST,
}
"""Faults that pass by themselves, and those that take long to detect again; hardware and Engine faults lie between."""

NONE_AVOIDED = "{}"
"""No nodes, as JSON."""


def node_avoid(*, job: Job, node: str, cause: str, now: datetime) -> None:
    """Makes the job avoid the node for a while, if another can take it. Inside a transaction that holds the job's
    row."""
    job.refresh_from_db(fields=["avoid_nodes"])
    until = now + _FADES.get(cause, _USUAL)
    job.avoid_nodes = {**job.avoid_nodes, node: _ms(until)}
    Job.objects.filter(pk=job.pk).update(avoid_nodes=job.avoid_nodes)


def nodes_avoided(told: str, now: datetime) -> frozenset[str]:
    """The nodes that a job avoids now, from its ``avoid_nodes`` as JSON. An entry further ahead than the longest pause
    was written by a wrong clock and is ignored."""
    last = _ms(now + _LONGEST + timedelta(minutes=1))
    return frozenset(name for name, until in json.loads(told).items() if _ms(now) < until <= last)


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
