"""Jobs as OpenPAI names them: ``user~name``, and ``user~name-7`` for the seventh run of a name."""

from __future__ import annotations

import re
from datetime import datetime

from django.db.models import Q

from portal.jobs.models import Job
from portal.node_orders.services.environment import pai_job_name

_LATER_RUN = re.compile(r"(.+)-([1-9][0-9]{0,8})", re.DOTALL)
LONGEST = 300


def pai_name(job: Job) -> str:
    """The job's name without its user."""
    return pai_job_name(job.name, job.run)


def framework_name(job: Job) -> str:
    """``user~name``; needs the user loaded."""
    return f"{job.user.username}~{pai_name(job)}"


def named(user: str, name: str) -> Q:
    """The jobs that this may name, at most two: the first run of exactly this name, or a later run."""
    wanted = Q(name=name, run=1)
    later = _LATER_RUN.fullmatch(name)
    if later and int(later[2]) > 1:
        wanted |= Q(name=later[1], run=int(later[2]))
    return Q(user__username=user) & wanted


def ms(moment: datetime | None) -> int | None:
    """Milliseconds since 1970, as OpenPAI tells times."""
    return None if moment is None else int(moment.timestamp() * 1000)
