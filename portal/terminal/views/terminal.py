"""The terminal of a job's page: a shell in one of its running tasks, over ``/ws/exec/``."""

from __future__ import annotations

from typing import Any

from portal.accounts.pages import PageRequest
from portal.jobs.models import Job
from portal.jobs.selectors.details import tasks_running


def terminal_shown(request: PageRequest, job: Job) -> dict[str, Any]:
    """The tasks that run, and the one that the address names, else the first."""
    runs = tasks_running(job=job)
    named = next((run for run in runs if str(run.pk) == request.GET.get("task")), None)
    return {"runs": runs, "run": named or next(iter(runs), None), "own": job.user_id == request.user.pk}
