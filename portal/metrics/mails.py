"""The advice in the mail about a job's end."""

from __future__ import annotations

from portal.jobs.models import Job
from portal.metrics.advice import job_advice
from portal.notices.letters import advises


@advises
def advice_words(job: Job) -> list[str]:
    """The sentences."""
    return [one.message for one in job_advice(job=job)]
