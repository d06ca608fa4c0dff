"""Jobs and everything that hangs on them. Logs are files, never rows; what is held is derived from live rows."""

from portal.jobs.models.attempt import JobAttempt, JobEvent, TaskAttempt
from portal.jobs.models.code import CodeFolder, CodeUpload
from portal.jobs.models.folder import KeptFolder
from portal.jobs.models.holding import Allocation, Claim, Demotion, Preemption, Standing, Usage, UsageMark
from portal.jobs.models.idle import GpuActivity, IdleExemption, IdlePolicy, IdleWarning
from portal.jobs.models.job import Job, Task, TaskRole
from portal.jobs.models.lists import TAG_LENGTH, VIEW_NAME_LENGTH, JobTag, SavedView
from portal.jobs.models.template import JobTemplate
from portal.jobs.models.usage import Measured, UsageDay, UsageProgress

__all__ = [
    "TAG_LENGTH",
    "VIEW_NAME_LENGTH",
    "JobTag",
    "JobTemplate",
    "SavedView",
    "Allocation",
    "Claim",
    "CodeFolder",
    "CodeUpload",
    "Demotion",
    "GpuActivity",
    "IdleExemption",
    "IdlePolicy",
    "IdleWarning",
    "Job",
    "JobAttempt",
    "JobEvent",
    "KeptFolder",
    "Measured",
    "Preemption",
    "Standing",
    "Task",
    "TaskAttempt",
    "TaskRole",
    "Usage",
    "UsageDay",
    "UsageMark",
    "UsageProgress",
]
