"""What is wrong with the steps that a running training tells, for its charts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.utils.translation import gettext as _
from redis import Redis, RedisError

from nodes.protocol.states import StepFault
from portal.common.samples import readings
from portal.jobs.models import Job, TaskAttempt

RECENT_S = 30
SILENT = timedelta(minutes=10)
"""How long a task may run before a pattern that has matched nothing is told."""

log = logging.getLogger(__name__)


def step_problems(job: Job, rows: Sequence[TaskAttempt], *, told: bool, now: datetime, redis: Redis) -> list[str]:
    """Sentences on these running task attempts of the job, one for each kind of fault; ``told``: some step is known.
    Needs nodes and tasks loaded. One request to Redis; none of its own while that is away."""
    running = [row for row in rows if row.released_at is None]
    if not running:
        return []
    faults: dict[str, TaskAttempt] = {}
    own = {row.pk: row for row in running}
    first_ms = int((now.timestamp() - RECENT_S) * 1000)
    nodes = sorted({row.node.name for row in running})
    try:
        for node, kept in readings(redis=redis, nodes=nodes, first_ms=first_ms, end_ms=(1 << 63) - 1):
            for task in kept[-1].tasks if kept else ():
                row = own.get(task.attempt)
                if row is not None and row.node.name == node and task.steps and task.steps.fault:
                    faults.setdefault(task.steps.fault, row)
    except RedisError as error:
        log.warning("newest steps cannot be read: %s", error)
    found = [_words(fault, f"{row.task.role.name}/{row.task.index}") for fault, row in faults.items()]
    if not (told or found) and job.spec.get("berth", {}).get("steps") and _long(running, now):
        found = [_("No line of its log has matched extras.berth.steps so far.")]
    return found


def _long(rows: Sequence[TaskAttempt], now: datetime) -> bool:
    return any(row.started_at is not None and now - row.started_at > SILENT for row in rows)


def _words(fault: str, task: str) -> str:
    sentences = {
        StepFault.NUMBER: _("%(task)s: what its steps' pattern or file gives as a number is no whole number."),
        StepFault.SLOW: _("%(task)s: the pattern of its steps takes too long: not every line of its log is searched."),
        StepFault.LINK: _("%(task)s: $BERTH_STEPS is a link, which is not followed: write a plain file."),
        StepFault.NO_FILE: _("%(task)s: $BERTH_STEPS is no plain file: write one with the step and the time."),
        StepFault.LONG: _("%(task)s: $BERTH_STEPS is longer than 64 bytes: write the newest step alone."),
        StepFault.TEXT: _('%(task)s: $BERTH_STEPS must say "<step> <milliseconds since 1970>".'),
        StepFault.FUTURE: _("%(task)s: the time in $BERTH_STEPS has not come yet: write milliseconds since 1970."),
    }
    return sentences[StepFault(fault)] % {"task": task}
