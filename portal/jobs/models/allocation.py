"""Allocations, claims, demotions and preemptions of GPUs, and the usage charged for them."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from portal.hardware.models import Gpu
from portal.jobs.models.attempt import JobAttempt, TaskAttempt
from portal.jobs.models.job import Job, Task
from portal.teams.models import VirtualCluster


class Standing(models.TextChoices):
    """The right by which a leaf cell is held."""

    GUARANTEED = "guaranteed", _("Guaranteed")
    BORROWED = "borrowed", _("Borrowed")


class Allocation(models.Model):
    """A task attempt's hold on one leaf cell, inside its VC's quota (``virtual_cell``) or borrowed (empty). One that
    gives its leaf up while it is parked has another hold on it afterwards.

    ``since``: when the present right began. ``turns``: all times (ISO 8601, separated by spaces) at which the right
    flipped between the two, so that past hours keep the right they were held by.
    """

    task_attempt = models.ForeignKey(TaskAttempt, on_delete=models.CASCADE, related_name="allocations")
    leaf = models.ForeignKey(Gpu, on_delete=models.PROTECT, related_name="allocations")
    virtual_cell = models.CharField(max_length=200, blank=True)
    standing = models.CharField(max_length=10, choices=Standing.choices)
    since = models.DateTimeField()
    turns = models.TextField(blank=True, default="", db_default="")
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
        indexes = [models.Index(fields=["released_at", "created_at"], name="allocation_by_time")]

    def __str__(self) -> str:
        return f"{self.leaf_id} by {self.task_attempt_id}"


class Claim(models.Model):
    """A leaf cell kept for a task of ``claimant``, in a virtual cell of its VC or (empty) for a loan, while its last
    holder leaves.

    ``victim`` held it when it was claimed; the allocations say who holds it now.
    """

    leaf = models.OneToOneField(Gpu, on_delete=models.PROTECT, related_name="claim")
    claimant = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="claims")
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="claims")
    virtual_cell = models.CharField(max_length=200, blank=True)
    victim = models.ForeignKey(Job, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    parked = models.BooleanField(
        default=False, db_default=False, help_text="the claimant is parked there, and lends the GPU"
    )
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.leaf_id} for {self.claimant_id}"


class Demotion(models.Model):
    """A guaranteed job whose running attempt counts as borrowed; deleted when the attempt ends."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="demotion")
    cause = models.CharField(max_length=200)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.job_id}: {self.cause}"


class Preemption(models.Model):
    """GPUs taken back for ``preemptor``: ``tasks`` tasks of the attempt ``victim``, holding ``gpus`` GPUs, were told to
    end by ``deadline``."""

    preemptor = models.ForeignKey(Job, null=True, on_delete=models.SET_NULL, related_name="preemptions")
    victim = models.ForeignKey(JobAttempt, on_delete=models.CASCADE, related_name="preemptions")
    tasks = models.PositiveIntegerField()
    gpus = models.PositiveIntegerField()
    on_loan = models.BooleanField(help_text="what was taken back was no right of the victim's, which lost its run")
    at = models.DateTimeField()
    deadline = models.DateTimeField()

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["at"], condition=models.Q(on_loan=True), name="loan_lost_at")]

    def __str__(self) -> str:
        return f"{self.victim_id} for {self.preemptor_id}"


class Usage(models.Model):
    """What a user's ended guaranteed tasks took of one resource in one hour (``hour``: hours since 1970).

    ``resource`` is a SKU's name, or one of the scheduler's words for CPU and memory; ``amount`` is in GPU, milli-core
    or MB milliseconds. The only stored counter: fair share needs it, and live rows cannot give it.
    """

    vc = models.ForeignKey(VirtualCluster, on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    resource = models.CharField(max_length=64)
    hour = models.PositiveIntegerField()
    amount = models.BigIntegerField()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["hour", "vc", "user", "resource"], name="usage_once"),
        ]

    def __str__(self) -> str:
        return f"hour {self.hour}: {self.resource} of {self.user_id} in {self.vc_id}: {self.amount}"


class UsageMark(models.Model):
    """A single row, made with the first charge. ``version`` grows when usage is added to past days, so that their
    weighted sum is only then recomputed. ``epoch`` tells one database from another."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    epoch = models.UUIDField(default=uuid.uuid4)
    version = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="one_usage_mark")]

    def __str__(self) -> str:
        return f"{self.epoch} {self.version}"
