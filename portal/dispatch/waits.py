"""Why jobs wait, as the plan says it, in words for people."""

from __future__ import annotations

from collections.abc import Iterable

import scheduling
from portal.dispatch.snapshot import Loaded
from portal.jobs.selectors import preemptions_open
from portal.jobs.services import Waiting, preempting_words

KEPT = "GPUs are kept for it until those who hold them have left."


def waits_told(plan: scheduling.Plan, loaded: Loaded) -> list[Waiting]:
    """A reason for every waiting job. The engine knows jobs by number; people know them by name."""
    taking = [loaded.jobs[wait.job.id] for wait in plan.waits if wait.reason.code is scheduling.Code.PREEMPTING]
    words = _preempting(taking) if taking else {}
    return [*(_told(wait, loaded, words) for wait in plan.waits), *_held_back(loaded)]


def _told(wait: scheduling.Wait, loaded: Loaded, preempting: dict[int, str]) -> Waiting:
    job, reason = loaded.jobs[wait.job.id], wait.reason
    message = reason.sentence
    if reason.code is scheduling.Code.DEPENDENCY:
        message = loaded.waits_for.get(job) or message
    elif reason.code is scheduling.Code.PREEMPTING:
        message = preempting.get(job, KEPT)
    numbers = {**reason.numbers, **({"place": wait.place} if wait.place else {})}
    return Waiting(job_id=job, code=str(reason.code), message=message, numbers=numbers)


def _preempting(jobs: Iterable[int]) -> dict[int, str]:
    """Whom each of these jobs takes GPUs back from, and until when."""
    words = {}
    for job, told in preemptions_open(jobs=jobs).items():
        if (preemptor := told[0].preemptor) is not None:
            words[job] = preempting_words(job=preemptor, told=told)
    return words


def _held_back(loaded: Loaded) -> list[Waiting]:
    return [Waiting(job_id=job_id, code=held.code, message=held.message) for job_id, held in loaded.held_back.items()]
