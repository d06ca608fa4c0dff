"""Jobs and everything that hangs on them. Logs are files, never rows; usage is derived from live rows."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q

from nodes.protocol import ContainerState, Phase
from portal.clusters.models import Gpu, Node, Sku, VirtualCluster
from portal.common.models import EventRow
from portal.jobs.states import AttemptState, EndReason, JobState, TaskState


class Job(models.Model):
    """One run of a job file; shown as ``user/name#run``."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="jobs")
    vc = models.ForeignKey(VirtualCluster, on_delete=models.PROTECT, related_name="jobs")
    name = models.CharField(max_length=255)
    run = models.PositiveIntegerField(help_text="counts the user's jobs of this name, from 1")
    state = models.CharField(max_length=10, choices=JobState.choices, default=JobState.WAITING)

    priority = models.SmallIntegerField()
    gang = models.BooleanField(default=True)
    spec = models.JSONField(help_text="JobSpec.to_json: no secrets")
    config = models.TextField(help_text="the job file as submitted, secrets masked")
    secrets_sealed = models.TextField(blank=True, help_text="sealed under the key file")
    submit_key = models.CharField(max_length=100, blank=True, help_text="Idempotency-Key of the submission")

    submitted_at = models.DateTimeField()
    not_before = models.DateTimeField(null=True, blank=True, help_text="a retry waits until then")
    started_at = models.DateTimeField(null=True, blank=True, help_text="first time it ran")
    ended_at = models.DateTimeField(null=True, blank=True)
    end_reason = models.CharField(max_length=16, choices=EndReason.choices, blank=True)
    end_message = models.TextField(blank=True, help_text="the cause in words")
    exit_code = models.IntegerField(null=True, blank=True)
    retries = models.PositiveIntegerField(default=0, help_text="attempts after the first")
    retries_counted = models.PositiveIntegerField(default=0, help_text="of these, those its retry count pays for")
    avoid_nodes = models.JSONField(default=list, blank=True, help_text="names of nodes that were at fault")

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
            models.Index(fields=["user", "-id"], name="job_user_newest"),
            models.Index(fields=["vc", "-id"], name="job_vc_newest"),
        ]

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """``user/name#run``; needs the user loaded."""
        return f"{self.user.username}/{self.name}#{self.run}"


class TaskRole(models.Model):
    """A number of equal tasks of a job, in the file's order."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="roles")
    position = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=255)
    instances = models.PositiveIntegerField()
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


class Task(models.Model):
    """One task of a role; each run of it is a task attempt."""

    role = models.ForeignKey(TaskRole, on_delete=models.CASCADE, related_name="tasks")
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="tasks")
    index = models.PositiveIntegerField()
    state = models.CharField(max_length=10, choices=TaskState.choices, default=TaskState.WAITING)
    retries_counted = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["role_id", "index"]
        constraints = [models.UniqueConstraint(fields=["role", "index"], name="task_once")]
        indexes = [models.Index(fields=["job", "state"], name="task_job_state")]

    def __str__(self) -> str:
        return f"{self.role_id}/{self.index}"


class JobAttempt(models.Model):
    """One run of a job, from its placement to the end of its last container."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField(help_text="from 1")
    state = models.CharField(max_length=10, choices=AttemptState.choices, default=AttemptState.STARTING)
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True, help_text="when its first task ran")
    ended_at = models.DateTimeField(null=True, blank=True)
    end_reason = models.CharField(max_length=16, choices=EndReason.choices, blank=True)
    end_message = models.TextField(blank=True)
    end_behaviour = models.CharField(max_length=10, blank=True)
    exit_code = models.IntegerField(null=True, blank=True)
    digests = models.JSONField(default=dict, blank=True, help_text="image as named -> digest all its tasks run")

    class Meta:
        ordering = ["job_id", "number"]
        constraints = [
            models.UniqueConstraint(fields=["job", "number"], name="attempt_once"),
            models.UniqueConstraint(
                fields=["job"], condition=~Q(state=AttemptState.ENDED), name="one_live_attempt_per_job"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job_id}.{self.number}"


def _states(kind: type[ContainerState] | type[Phase]) -> list[tuple[str, str]]:
    return [(str(value), str(value)) for value in kind]


class TaskAttempt(models.Model):
    """One container (or process): what is wanted of it (``phase``) and how far it is (``state``).

    It holds its CPU and memory until ``released_at``, its GPUs by live allocations; ``lost_at`` says that the
    portal gave it up with its node: what it still sends is kept and changes nothing.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="attempts")
    job_attempt = models.ForeignKey(JobAttempt, on_delete=models.CASCADE, related_name="tasks")
    number = models.PositiveIntegerField(help_text="from 1, counts runs of this task")
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="task_attempts")
    phase = models.CharField(max_length=10, choices=_states(Phase), default=str(Phase.PREPARE))
    phase_since = models.BigIntegerField(default=0, help_text="the node's generation that first ordered it")
    state = models.CharField(max_length=12, choices=_states(ContainerState), default=str(ContainerState.ACCEPTED))
    spec_hash = models.CharField(max_length=32, blank=True)
    spec_sealed = models.TextField(blank=True, help_text="the ContainerSpec, readable with the node's key only")
    cpu_milli = models.PositiveIntegerField()
    memory_mb = models.PositiveIntegerField()
    ports = models.JSONField(default=dict, blank=True, help_text="label -> host ports held on the node")
    digest = models.CharField(max_length=100, blank=True, help_text="what the node resolved the image to")
    pinned_digest = models.CharField(max_length=100, blank=True, help_text="what it must run: the attempt's digest")
    waits_for = models.CharField(max_length=200, blank=True, help_text="an earlier attempt that may still write")
    isolation = models.CharField(max_length=40, blank=True)
    container = models.CharField(max_length=64, blank=True)
    progress = models.JSONField(default=dict, blank=True)

    created_at = models.DateTimeField()
    prepared_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    lost_at = models.DateTimeField(null=True, blank=True)
    released_at = models.DateTimeField(null=True, blank=True)
    removed_at = models.DateTimeField(null=True, blank=True)

    stop_reason = models.CharField(max_length=16, blank=True)
    stop_message = models.TextField(blank=True)
    stop_grace_s = models.PositiveIntegerField(default=0)
    cause = models.CharField(max_length=20, blank=True)
    exit_code = models.IntegerField(null=True, blank=True)
    exit_signal = models.IntegerField(null=True, blank=True)
    exit_message = models.TextField(blank=True)
    log_tail = models.TextField(blank=True)

    log_end = models.BigIntegerField(default=0)
    log_complete = models.BooleanField(default=False)
    log_dropped_lines = models.BigIntegerField(default=0)
    archived_to = models.BigIntegerField(default=0)

    class Meta:
        ordering = ["created_at", "id"]
        constraints = [
            models.UniqueConstraint(fields=["task", "number"], name="task_attempt_once"),
            models.UniqueConstraint(
                fields=["task"],
                condition=Q(lost_at__isnull=True) & ~Q(state=str(ContainerState.TERMINATED)),
                name="one_current_attempt_per_task",
            ),
        ]
        indexes = [
            models.Index(fields=["node"], condition=Q(removed_at__isnull=True), name="task_attempt_on_node"),
            models.Index(fields=["node"], condition=Q(released_at__isnull=True), name="task_attempt_holding"),
        ]

    def __str__(self) -> str:
        return str(self.id)

    @property
    def over(self) -> bool:
        """Whether it decides nothing any more: its container ended, or its node is lost."""
        return self.state == ContainerState.TERMINATED or self.lost_at is not None


class Standing(models.TextChoices):
    """By what right a leaf cell is held."""

    GUARANTEED = "guaranteed", "Guaranteed"
    BORROWED = "borrowed", "Borrowed"


class Allocation(models.Model):
    """A task attempt's hold on one leaf cell, inside its VC's quota (``virtual_cell``) or borrowed (empty)."""

    task_attempt = models.ForeignKey(TaskAttempt, on_delete=models.CASCADE, related_name="allocations")
    leaf = models.ForeignKey(Gpu, on_delete=models.PROTECT, related_name="allocations")
    virtual_cell = models.CharField(max_length=200, blank=True)
    standing = models.CharField(max_length=10, choices=Standing.choices)
    created_at = models.DateTimeField()
    released_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["leaf"], condition=Q(released_at__isnull=True), name="one_live_holder_per_leaf"
            ),
            models.UniqueConstraint(
                fields=["virtual_cell"],
                condition=Q(released_at__isnull=True) & ~Q(virtual_cell=""),
                name="one_live_holder_per_virtual_cell",
            ),
            models.CheckConstraint(
                condition=Q(standing=Standing.BORROWED, virtual_cell="")
                | (Q(standing=Standing.GUARANTEED) & ~Q(virtual_cell="")),
                name="guaranteed_has_virtual_cell",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.leaf_id} by {self.task_attempt_id}"


class Claim(models.Model):
    """A leaf cell kept for ``claimant`` while its last holder leaves."""

    leaf = models.OneToOneField(Gpu, on_delete=models.PROTECT, related_name="claim")
    claimant = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="claims")
    victim = models.ForeignKey(Job, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.leaf_id} for {self.claimant_id}"


class Demotion(models.Model):
    """A guaranteed job that counts as borrowed until its cause is gone."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="demotion")
    cause = models.CharField(max_length=200)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.job_id}: {self.cause}"


class JobEvent(EventRow):
    """What happened to a job, its attempts and tasks."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="events")
    job_attempt = models.ForeignKey(JobAttempt, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    task_attempt = models.ForeignKey(TaskAttempt, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
