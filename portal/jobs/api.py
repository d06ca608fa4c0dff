"""REST: the task attempt that a request is about, for the APIs of logs and readings."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from portal.accounts.models import User
from portal.common.errors import NotFound
from portal.common.serializers import Body
from portal.jobs.models import TaskAttempt
from portal.jobs.selectors.details import first_role, task_attempt_of
from portal.jobs.selectors.visible import job_get, task_attempt_visible


class ChosenTask(Body):
    task_attempt = serializers.UUIDField(required=False, help_text="which; else the newest of `role` and `index`")
    role = serializers.CharField(max_length=255, required=False, help_text="task role; else the first of the file")
    index = serializers.IntegerField(min_value=0, max_value=999_999, default=0, help_text="of the task in its role")


def chosen_task(*, user: User, job_id: int, wanted: dict[str, Any]) -> TaskAttempt:
    """The task attempt, with its task, job and node. Raises NotFound."""
    job = job_get(user=user, job_id=job_id)
    if "task_attempt" in wanted:
        row = task_attempt_visible(user, wanted["task_attempt"])
        if row.task.job_id != job.pk:
            raise NotFound("task attempt", f"{row.pk} of job {job.pk}")
    else:
        role = wanted.get("role") or first_role(job=job)
        row = task_attempt_of(job=job, role=role, index=wanted["index"], attempt=wanted.get("attempt"))
    row.task.job = job  # reuse the instance that has its user loaded
    return row
