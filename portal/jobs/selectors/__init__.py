"""Reading jobs: what somebody may see, as lists and details with a fixed number of queries."""

from portal.jobs.selectors.details import (
    RoleState,
    job_attempt_current,
    job_attempts,
    job_events,
    job_roles,
    job_tasks,
    task_attempt_of,
)
from portal.jobs.selectors.facts import cluster_facts
from portal.jobs.selectors.lists import job_listed, jobs_listed, queue_listed, queue_places
from portal.jobs.selectors.visible import job_get, job_restrict, job_with_right, task_attempt_visible

__all__ = [
    "RoleState",
    "cluster_facts",
    "job_attempt_current",
    "job_attempts",
    "job_events",
    "job_get",
    "job_listed",
    "job_restrict",
    "job_roles",
    "job_tasks",
    "job_with_right",
    "jobs_listed",
    "queue_listed",
    "queue_places",
    "task_attempt_of",
    "task_attempt_visible",
]
