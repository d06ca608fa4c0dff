"""Jobs and the rows that belong to them. Logs are files, never rows; holdings are derived from live rows."""

from portal.jobs.models.allocation import Allocation, Claim, Demotion, Preemption, Standing, Usage, UsageMark
from portal.jobs.models.attempt import JobAttempt, JobEvent, TaskAttempt
from portal.jobs.models.job import Job, Task, TaskRole
from portal.jobs.models.lists import TAG_LENGTH, VIEW_NAME_LENGTH, JobTag, SavedView

__all__ = [
    "TAG_LENGTH",
    "VIEW_NAME_LENGTH",
    "Allocation",
    "Claim",
    "Demotion",
    "Job",
    "JobAttempt",
    "JobEvent",
    "JobTag",
    "Preemption",
    "SavedView",
    "Standing",
    "Task",
    "TaskAttempt",
    "TaskRole",
    "Usage",
    "UsageMark",
]
