"""How a job is named to readers of another: of another team's job only its owner, team and GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from portal.job_file.model import JobSpec
from portal.job_file.wordings import AND_MORE
from portal.jobs import wordings
from portal.jobs.models import Job

_NAMED = 5

NAMED = ("name", "run", "gang", "spec", "user__username", "vc__name")
"""Columns that a name needs, and that are read of a job that gives or takes GPUs: a whole row is large."""


def job_named(job: Job, *, to: Job) -> str:
    """``job`` as named in a text on the page of ``to``; both need user and VC loaded."""
    return job.label if job.vc_id == to.vc_id else job_of_others(job)


def job_of_others(job: Job) -> str:
    """``job`` as named to another team's readers; needs user and VC loaded."""
    gpus = JobSpec.from_json(job.spec).gpu_count
    return wordings.OF_OTHERS(user=job.user.username, vc=job.vc.name, gpus=wordings.GPUS(number=gpus))


def jobs_named(jobs: Sequence[Job], *, to: Job) -> str:
    """Several jobs by name; of many the first ones and a count."""
    names = [job_named(job, to=to) for job in jobs[:_NAMED]]
    more = len(jobs) - len(names)
    if more:
        return AND_MORE(names=names, number=more)
    return wordings.AND(names=names[:-1], last=names[-1]) if len(names) > 1 else names[0]
