"""Reading jobs: what somebody may see, as lists and details with a fixed number of queries."""

from portal.jobs.selectors.facts import cluster_facts
from portal.jobs.selectors.visible import job_get, job_restrict, job_with_right, task_attempt_visible

__all__ = ["cluster_facts", "job_get", "job_restrict", "job_with_right", "task_attempt_visible"]
