"""Job attempts, task attempts and job events."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q

from nodes.protocol.states import Cause, ContainerState, Phase
from portal.common.models import EventRow
from portal.common.sentence_field import SentenceField
from portal.hardware.models import Node
from portal.jobs.models.job import Job, Task
from portal.jobs.states import AttemptState, EndReason


class JobAttempt(models.Model):
    """One run of a job, from its placement to the end of its last container."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField(help_text="from 1")
    state = models.CharField(max_length=10, choices=AttemptState.choices, default=AttemptState.STARTING)
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True, help_text="when its first task ran")
    ended_at = models.DateTimeField(null=True, blank=True)
    end_reason = models.CharField(max_length=16, choices=EndReason.choices, blank=True)
    end_message = SentenceField()
    end_behaviour = models.CharField(max_length=10, blank=True)
    exit_code = models.IntegerField(null=True, blank=True)
    parked_s = models.PositiveIntegerField(
        default=0, db_default=0, help_text="seconds parked, until it was last resumed: no part of its time limit"
    )
    own_priority = models.SmallIntegerField(
        null=True, blank=True, help_text="the priority that the job has again at its end, where it was lowered"
    )
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

    It holds CPU and memory until ``released_at``, and GPUs by live allocations. ``lost_at`` is set when the portal gave
    it up, because its node was lost or it did not end: later reports are stored but change nothing.
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
    lease_over_at = models.DateTimeField(
        null=True, blank=True, help_text="when it last stopped waiting for an earlier attempt that still wrote"
    )
    ssh = models.JSONField(
        default=dict, db_default={}, blank=True, help_text="empty: not reached by SSH; else what its node told of that"
    )

    created_at = models.DateTimeField()
    prepared_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    checkpoint_at = models.DateTimeField(null=True, blank=True, help_text="when it last saved its work, as it tells")
    lost_at = models.DateTimeField(null=True, blank=True)
    parked_at = models.DateTimeField(
        null=True, blank=True, help_text="since when it has been off its GPUs, which its job claims; empty: it is not"
    )
    released_at = models.DateTimeField(null=True, blank=True)
    removed_at = models.DateTimeField(null=True, blank=True)

    stop_reason = models.CharField(max_length=16, blank=True)
    stop_message = SentenceField()
    stop_grace_s = models.PositiveIntegerField(default=0)
    stop_since = models.DateTimeField(null=True, blank=True, help_text="when it was first told to stop")
    cause = models.CharField(max_length=20, blank=True)
    exit_code = models.IntegerField(null=True, blank=True)
    exit_signal = models.IntegerField(null=True, blank=True)
    exit_message = SentenceField()
    oom_seen = models.BooleanField(
        default=False, db_default=False, help_text="some process of it was killed for memory, and it ended otherwise"
    )
    log_tail = models.TextField(blank=True)

    log_end = models.BigIntegerField(default=0)
    log_complete = models.BooleanField(default=False)
    log_dropped_lines = models.BigIntegerField(default=0)
    archived_to = models.BigIntegerField(default=0)
    archive_gaps = models.BigIntegerField(
        default=0, db_default=0, help_text="bytes before archived_to that its node never sent"
    )

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
            models.Index(
                fields=["created_at"],
                condition=Q(released_at__isnull=True, cause=str(Cause.UNKILLABLE)),
                name="task_attempt_unkillable",
            ),
            # The rows are wide (a million are gigabytes), and the log quota needs only three columns.
            models.Index(
                fields=["job_attempt"],
                include=["archived_to", "archive_gaps"],
                condition=Q(removed_at__isnull=False, archived_to__gt=0),
                name="task_attempt_log",
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)

    @property
    def over(self) -> bool:
        """Whether it no longer decides anything: its container ended, or its node is lost."""
        return self.state == ContainerState.TERMINATED or self.lost_at is not None

    @property
    def alone(self) -> bool:
        """Whether its end is no end of its siblings: it is no task of a gang, or an extra one of an elastic role. Needs
        the job and the role loaded."""
        return not self.job_attempt.job.gang or self.task.extra


class JobEvent(EventRow):
    """Something that happened to a job, its attempts or tasks."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="events")
    job_attempt = models.ForeignKey(JobAttempt, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    task_attempt = models.ForeignKey(TaskAttempt, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
