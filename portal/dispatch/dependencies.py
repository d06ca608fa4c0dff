"""Jobs that wait for others: ``extras.berth.after`` names runs that must have succeeded first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from portal.jobs.models import Job
from portal.jobs.selectors.labels import JobLabel
from portal.jobs.states import JOB_OVER, JobState


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Why a job is not in the order at all: a code and a sentence, as a wait's reason."""

    code: str
    message: str


def job_key(job_id: int) -> str:
    """The engine's id of a job row."""
    return str(job_id)


@dataclass(frozen=True, slots=True)
class Dependencies:
    """By row id: the live jobs a job waits for (engine ids), the same in words, and what can not be met any more."""

    after: dict[int, tuple[str, ...]]
    words: dict[int, str]
    broken: dict[int, HeldBack]


def dependencies(wanted: Mapping[int, Sequence[JobLabel]]) -> Dependencies:
    """What each of these live jobs (row ids) waits for, which names these others.

    A name without a run means the newest run. One query, whatever the number of jobs; none without dependencies.
    """
    meant = _meant({label for labels in wanted.values() for label in labels})
    result = Dependencies({}, {}, {})
    for job_id, labels in wanted.items():
        found = [meant[label] for label in labels if label in meant]
        live = [other for other in found if other.state not in JOB_OVER]
        result.after[job_id] = tuple(job_key(other.pk) for other in live)
        if live:
            result.words[job_id] = f"it waits for {', '.join(other.label for other in live)} to succeed"
        bad = next((other for other in found if other.state in JOB_OVER - {JobState.SUCCEEDED}), None)
        if bad is not None:
            result.broken[job_id] = _broken(bad)
    return result


def _meant(labels: set[JobLabel]) -> dict[JobLabel, Job]:
    """Label -> job, both for single runs and for names, which mean the newest."""
    meant: dict[JobLabel, Job] = {}
    if labels:
        names, users = {label.name for label in labels}, {label.user for label in labels}
        rows = Job.objects.filter(name__in=names, user__username__in=users).select_related("user").order_by("run")
        for job in rows.only("id", "name", "run", "state", "user__username"):
            label = JobLabel(job.user.username, job.name, job.run)
            meant[label] = meant[label.named] = job
    return meant


def _broken(other: Job) -> HeldBack:
    state = other.state
    return HeldBack(
        "dependency", f"it needs {other.label}, which ended as {state}; stop this job, or let that one succeed"
    )
