"""Writing jobs: submit, stop, and what nodes report. Each service is one transaction or several whole ones."""

from portal.jobs.services.admission import job_check, job_hints
from portal.jobs.services.attempts import (
    Leaf,
    NoPortLeft,
    Overtaken,
    Placed,
    attempt_end,
    attempt_run_when_prepared,
    attempt_start,
)
from portal.jobs.services.moves import job_hold
from portal.jobs.services.orders import desired_build, desired_send, nodes_bump
from portal.jobs.services.reports import attempt_log_done, container_report, containers_report
from portal.jobs.services.stop import job_stop
from portal.jobs.services.submit import job_submit
from portal.jobs.services.upkeep import Waiting, jobs_reconcile, node_tasks_lose, waits_write

__all__ = [
    "Leaf",
    "NoPortLeft",
    "Overtaken",
    "Placed",
    "Waiting",
    "attempt_end",
    "attempt_log_done",
    "attempt_run_when_prepared",
    "attempt_start",
    "container_report",
    "containers_report",
    "desired_build",
    "desired_send",
    "job_check",
    "job_hold",
    "job_hints",
    "job_stop",
    "job_submit",
    "jobs_reconcile",
    "node_tasks_lose",
    "nodes_bump",
    "waits_write",
]
