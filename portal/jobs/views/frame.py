"""The context shared by all sections of a job's page."""

from __future__ import annotations

from dataclasses import dataclass

from portal.accounts.pages import PageRequest
from portal.jobs.models import Job, JobAttempt
from portal.jobs.states import JOB_LIVE
from portal.jobs.views.asked import number_asked


@dataclass(frozen=True, slots=True)
class Frame:
    """The job, the reader's request, the newest attempts (newest first), and what the reader may do to the job."""

    request: PageRequest
    job: Job
    attempts: list[JobAttempt]
    may: dict[str, bool]

    @property
    def live(self) -> bool:
        return self.job.state in JOB_LIVE

    @property
    def attempt(self) -> int | None:
        """The number of the attempt shown: the one the address names, else the newest."""
        return number_asked(self.request, "attempt") or (self.attempts[0].number if self.attempts else None)
