"""Pages of jobs: those of all, and submitting one."""

from portal.jobs.views.pages import (
    home,
    job_list,
    job_move_page,
    job_page,
    job_pause_page,
    job_resume_page,
    job_stop_page,
    queue,
)
from portal.jobs.views.submitting import submit

__all__ = [
    "home",
    "job_list",
    "job_move_page",
    "job_page",
    "job_pause_page",
    "job_resume_page",
    "job_stop_page",
    "queue",
    "submit",
]
