"""Turns the plan's reasons why jobs wait into words."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping

import scheduling
from nodes.protocol.wording import stored
from portal.common.prepared import Among, Prepared
from portal.jobs.models import Job
from portal.jobs.selectors.preemptions import preemptions_open
from portal.jobs.services.preempt import preempting_words
from portal.jobs.services.words import NAMED, job_of_others
from portal.queue.services.waits import Waiting
from portal.scheduler.snapshot import Loaded

_JOB = re.compile(r"\bjob (\d+)\b")
"""A job in the engine's sentences."""

_JOB_NUMBERS = {"job", "first"}
"""Keys of reason numbers that hold a job's id."""


def waits_told(waits: Iterable[scheduling.Wait], loaded: Loaded, due: Container[int]) -> list[Waiting]:
    """Reasons of the jobs that are due. The engine knows jobs by number; people know them by name."""
    wanted = [wait for wait in waits if loaded.jobs[wait.job.id] in due]
    taking = [loaded.jobs[wait.job.id] for wait in wanted if wait.reason.code is scheduling.Code.PREEMPTING]
    words = _preempting(taking) if taking else {}
    names = Names(loaded.jobs, (wait.reason for wait in wanted))
    held_back = ((job, held) for job, held in loaded.held_back.items() if job in due)
    return [
        *(_told(wait, loaded, words, names) for wait in wanted),
        *(
            Waiting(job_id=job, code=held.code, message=held.message, numbers=stored(held.message))
            for job, held in held_back
        ),
    ]


class Names:
    """Names of the jobs that reasons mention. A team reads its own jobs' names; of others' the owner, team and GPUs.
    One query; none if no job is mentioned."""

    def __init__(self, jobs: Mapping[str, int], reasons: Iterable[scheduling.Reason]) -> None:
        mentioned = {job for reason in reasons for job in _JOB.findall(reason.sentence) if job in jobs}
        found = {row.pk: row for row in (_MENTIONED(jobs=[jobs[job] for job in mentioned]) if mentioned else ())}
        self._rows = {job: found[jobs[job]] for job in mentioned if jobs[job] in found}

    def told(self, sentence: str, *, vc: str) -> str:
        """The sentence for members of this virtual cluster."""

        return _JOB.sub(lambda mention: self._name(mention[1], vc), sentence)

    def numbers(self, numbers: Mapping[str, int | str], *, vc: str) -> dict[str, int | str]:
        """The reason's numbers for them, with the same names instead of ids."""
        return {key: self._name(str(value), vc) if key in _JOB_NUMBERS else value for key, value in numbers.items()}

    def _name(self, job: str, vc: str) -> str:
        row = self._rows.get(job)
        if row is None:
            return "another job"
        return row.label if row.vc.name == vc else job_of_others(row)


_MENTIONED = Prepared(
    lambda: Job.objects.filter(Among("id", "jobs")).order_by().select_related("user", "vc").only(*NAMED)
)


def _told(wait: scheduling.Wait, loaded: Loaded, preempting: dict[int, str], names: Names) -> Waiting:
    job, reason = loaded.jobs[wait.job.id], wait.reason
    message = names.told(reason.sentence, vc=wait.job.vc)
    if reason.code is scheduling.Code.DEPENDENCY:
        message = loaded.waits_for.get(job) or message
    elif reason.code is scheduling.Code.PREEMPTING:
        message = preempting.get(job) or message
    numbers = names.numbers(reason.numbers, vc=wait.job.vc)
    numbers |= {"place": wait.place} if wait.place else {}
    return Waiting(job_id=job, code=str(reason.code), message=message, numbers=numbers)


def _preempting(jobs: Iterable[int]) -> dict[int, str]:
    """From whom each of these jobs takes GPUs back, and until when."""
    words = {}
    for job, told in preemptions_open(jobs=jobs).items():
        if (preemptor := told[0].preemptor) is not None:
            words[job] = preempting_words(job=preemptor, told=told).removesuffix(".")
    return words
