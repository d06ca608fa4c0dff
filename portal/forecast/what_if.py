"""What would become of a job were it submitted now: the scheduler itself is asked, with one job more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from nodes.protocol.wording import stored
from portal.accounts.models import User
from portal.common.errors import Fault, Invalid
from portal.forecast.estimates import endless_named, run_times, time_box
from portal.jobs.models import Job
from portal.jobs.problem_words import problem_words
from portal.jobs.services.admission import job_check
from portal.jobs.services.submit import job_draft
from portal.queue.outlook import Endless, StartRange
from portal.queue.selectors.queue import Forecast, forecast
from portal.scheduler.dependencies import HeldBack
from portal.scheduler.job_builder import draft_read
from portal.scheduler.snapshot import SNAPSHOTS, Loaded
from portal.scheduler.waits import Names
from scheduling import Code, JobRefused, Preempt, Start, Wait
from scheduling.forecast.estimate import Estimate, what_if

NOTHING_KNOWN = Forecast(None, None)

SECONDS = 1.0
"""For the runs forward; reading the rows comes to it."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """``nodes``: where it would start now; empty: it would wait, for the reason in ``code`` and ``message``.
    ``vc``: its virtual cluster, whose people read it."""

    nodes: tuple[str, ...] = ()
    code: str = ""
    message: str = ""
    numbers: Mapping[str, int | str] = field(default_factory=dict)
    place: int | None = None
    forecast: Forecast = NOTHING_KNOWN
    vc: str = ""


def job_what_if(*, user: User, text: str | bytes, now: datetime) -> WhatIf:
    """Ask for a job file. Raises SpecInvalid with every problem of the file, Invalid for what the scheduler refuses."""
    draft, roles = job_draft(user=user, spec=job_check(user=user, text=text), now=now)
    loaded = SNAPSHOTS.load(now=now)
    job = draft_read(draft=draft, roles=roles, now=now, nodes=frozenset(loaded.nodes), ties=loaded.ties)
    if isinstance(job, HeldBack):
        return WhatIf(code=job.code, message=job.message, numbers=stored(job.message), vc=draft.vc.name)
    try:
        found = what_if(loaded.snapshot, job, int(now.timestamp() * 1000), run_times(), spent=time_box(SECONDS))
    except JobRefused as refused:
        raise Invalid(Fault("", problem_words(one.sentence), "refused") for one in refused.refusals) from refused
    endless = endless_named(found.endless, loaded.jobs) if found.endless else None
    return _told(found.answer, draft, loaded, _forecast(found.estimate, draft, endless))


def _forecast(estimate: Estimate | None, draft: Job, endless: Endless | None) -> Forecast:
    start = StartRange(estimate.p50_ms, estimate.p90_ms) if estimate else None
    return Forecast(start, forecast(job_id=0, vc=draft.vc.name).score, endless)


def _told(answer: Start | Preempt | Wait, draft: Job, loaded: Loaded, expected: Forecast) -> WhatIf:
    if isinstance(answer, Start):
        nodes = tuple(sorted({placement.node for placement in answer.placements}))
        return WhatIf(nodes=nodes, forecast=expected, vc=draft.vc.name)
    if isinstance(answer, Preempt):
        count, grace = len(answer.victims), max((victim.grace_ms for victim in answer.victims), default=0) // 1000
        whom = "1 job, which has" if count == 1 else f"{count} jobs, which have"
        message = f"GPUs would be taken back for it from {whom} at most {grace} s to end"
        numbers = {"victims": count, "grace_s": grace}
        return WhatIf((), str(Code.PREEMPTING), message, numbers, None, expected, draft.vc.name)
    reason = answer.reason
    names, vc = Names(loaded.jobs, [reason]), draft.vc.name
    told = names.told(reason.sentence, vc=vc), names.numbers(reason.numbers, vc=vc)
    return WhatIf((), str(reason.code), *told, answer.place, expected, vc)
