"""Jobs and everything that hangs on them. Logs are files, never rows; usage is derived from live rows."""

from portal.jobs.models.attempt import JobAttempt, JobEvent, TaskAttempt
from portal.jobs.models.code import CodeFolder, CodeUpload
from portal.jobs.models.holding import Allocation, Claim, Demotion, Preemption, Standing, Usage, UsageMark
from portal.jobs.models.job import Job, Task, TaskRole

__all__ = [
    "Allocation",
    "Claim",
    "CodeFolder",
    "CodeUpload",
    "Demotion",
    "Job",
    "JobAttempt",
    "JobEvent",
    "Preemption",
    "Standing",
    "Task",
    "TaskAttempt",
    "TaskRole",
    "Usage",
    "UsageMark",
]
