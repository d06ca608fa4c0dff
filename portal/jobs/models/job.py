"""Jobs with their task roles and tasks."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from portal.common.sentence_field import SentenceField
from portal.hardware.models import Sku
from portal.jobs.states import JOB_LIVE, EndReason, JobState, TaskState
from portal.teams.models import VirtualCluster


class Job(models.Model):
    """One run of a job file; shown as ``user/name#run``."""

    # No index of their own: both lead an index below, and another would be written with every change of a job.
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="jobs", db_index=False)
    vc = models.ForeignKey(VirtualCluster, on_delete=models.PROTECT, related_name="jobs", db_index=False)
    name = models.CharField(max_length=255)
    run = models.PositiveIntegerField(help_text="counts the user's jobs of this name, from 1")
    state = models.CharField(max_length=10, choices=JobState.choices, default=JobState.WAITING)

    priority = models.SmallIntegerField()
    gang = models.BooleanField(default=True)
    spec = models.JSONField(help_text="JobSpec.to_json: no secrets")
    config = models.TextField(help_text="the job file as submitted, secrets masked")
    secrets_sealed = models.TextField(blank=True, help_text="sealed under the key file")
    code = models.ForeignKey(
        "code.CodeFolder", null=True, blank=True, on_delete=models.PROTECT, related_name="jobs", db_index=False
    )
    submit_key = models.CharField(max_length=100, blank=True, help_text="Idempotency-Key of the submission")

    submitted_at = models.DateTimeField()
    paused = models.BooleanField(default=False, help_text="held by its owner or a lead: it does not start")
    kept = models.BooleanField(
        default=False,
        db_default=False,
        help_text="a lead lets it run for the team, though its owner may not run jobs there any more",
    )
    queue_ms = models.BigIntegerField(
        null=True, blank=True, help_text="as if submitted then (ms since 1970), for the order alone; empty: as it was"
    )
    led = models.BooleanField(
        db_default=False,
        default=False,
        help_text="a lead gave it its place: before all others of its class that have none",
    )
    not_before = models.DateTimeField(null=True, blank=True, help_text="a retry waits until then")
    started_at = models.DateTimeField(null=True, blank=True, help_text="first time it ran")
    ended_at = models.DateTimeField(null=True, blank=True)
    end_reason = models.CharField(max_length=16, choices=EndReason.choices, blank=True)
    end_message = SentenceField(help_text="the cause in words")
    exit_code = models.IntegerField(null=True, blank=True)
    logs_dropped_at = models.DateTimeField(
        null=True, blank=True, help_text="its logs were deleted early, since its virtual cluster kept too many"
    )
    retries = models.PositiveIntegerField(default=0, help_text="attempts after the first")
    retries_counted = models.PositiveIntegerField(default=0, help_text="of these, those its retry count pays for")
    avoid_nodes = models.JSONField(
        default=dict, blank=True, help_text="nodes that were at fault -> until when it goes elsewhere, ms since 1970"
    )

    waiting_code = models.CharField(max_length=20, blank=True)
    waiting_message = models.TextField(blank=True)
    waiting_numbers = models.JSONField(default=dict, blank=True)
    waiting_written_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["user", "name", "run"], name="job_run_once"),
            models.UniqueConstraint(
                fields=["user", "submit_key"], condition=~Q(submit_key=""), name="job_submit_key_once"
            ),
        ]
        indexes = [
            models.Index(fields=["state", "vc"], name="job_state_vc"),
            models.Index(fields=["user", "submitted_at", "id"], name="job_of_user"),
            models.Index(fields=["vc", "submitted_at", "id"], name="job_of_vc"),
            models.Index(fields=["submitted_at", "id"], name="job_by_submission"),
            # Live jobs are few and recent; a search of all jobs for the newest would not know that.
            models.Index(fields=["submitted_at", "id"], condition=Q(state__in=sorted(JOB_LIVE)), name="job_live"),
            # For reading only the queue's ids: the rows are wide, one to a page. Ordered by priority, or the database
            # would walk all jobs in that order to find ten that wait.
            models.Index(fields=["priority", "id"], condition=Q(state=JobState.WAITING), name="job_waiting_order"),
            models.Index(fields=["name", "id"], name="job_by_name"),
            models.Index(fields=["ended_at", "id"], condition=Q(ended_at__isnull=False), name="job_by_end"),
            models.Index(fields=["priority", "id"], name="job_by_priority"),
            # The log quota counts from this. Only ended jobs, so that running ones do not write it.
            models.Index(
                fields=["vc", "ended_at", "id"],
                condition=Q(ended_at__isnull=False, logs_dropped_at__isnull=True),
                name="job_with_logs",
            ),
            models.Index(fields=["code"], condition=Q(code__isnull=False), name="job_by_code"),
        ]

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """``user/name#run``; needs the user loaded."""
        return f"{self.user.username}/{self.name}#{self.run}"


class TaskRole(models.Model):
    """A group of identical tasks of a job, in the file's order. ``least``: so many of an elastic role's ``instances``
    are part of the gang, the first ones; the others are extra tasks, which come and go while the job runs."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="roles")
    position = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=255)
    instances = models.PositiveIntegerField()
    least = models.PositiveIntegerField(null=True, blank=True)
    gpus = models.PositiveIntegerField()
    cpu_milli = models.PositiveIntegerField()
    memory_mb = models.PositiveIntegerField()
    sku = models.ForeignKey(Sku, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    pinned_cell = models.CharField(max_length=64, blank=True)
    affinity_group = models.CharField(max_length=64, blank=True)
    min_failed = models.IntegerField(default=1)
    min_succeeded = models.IntegerField()
    task_retry_count = models.IntegerField(default=0)

    class Meta:
        ordering = ["job_id", "position"]
        constraints = [models.UniqueConstraint(fields=["job", "name"], name="role_once")]

    def __str__(self) -> str:
        return self.name

    @property
    def at_least(self) -> int:
        """How many of its tasks the job does not run without."""
        return self.instances if self.least is None else self.least


class Task(models.Model):
    """One task of a role; each run of it is a task attempt."""

    role = models.ForeignKey(TaskRole, on_delete=models.CASCADE, related_name="tasks")
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="tasks")
    index = models.PositiveIntegerField()
    state = models.CharField(max_length=10, choices=TaskState.choices, default=TaskState.WAITING)
    retries_counted = models.PositiveIntegerField(default=0)
    not_before = models.DateTimeField(null=True, blank=True, help_text="it waits until then to be tried again")

    class Meta:
        ordering = ["role_id", "index"]
        constraints = [models.UniqueConstraint(fields=["role", "index"], name="task_once")]
        indexes = [models.Index(fields=["job", "state"], name="task_job_state")]

    def __str__(self) -> str:
        return f"{self.role_id}/{self.index}"

    @property
    def extra(self) -> bool:
        """Whether it is an extra task of an elastic role; needs the role loaded."""
        return self.index >= self.role.at_least
