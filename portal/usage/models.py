"""GPU usage: measured sums per task attempt, and daily sums for reports."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from portal.hardware.models import Sku
from portal.jobs.models.attempt import TaskAttempt
from portal.teams.models import VirtualCluster


class Measured(models.Model):
    """GPU milliseconds with readings of a task attempt on one day (UTC); ``used_ms``: these times the utilisation,
    ``idle_ms``: minutes in which a GPU did next to nothing."""

    task_attempt = models.ForeignKey(TaskAttempt, on_delete=models.CASCADE, related_name="measured")
    day = models.DateField()
    measured_ms = models.BigIntegerField()
    used_ms = models.BigIntegerField()
    idle_ms = models.BigIntegerField()

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["day", "task_attempt"], name="measured_once")]

    def __str__(self) -> str:
        return f"{self.task_attempt_id} on {self.day}: {self.used_ms} of {self.measured_ms} ms"


class UsageDay(models.Model):
    """GPU milliseconds that a user held and used of a SKU in a virtual cluster on one past day (UTC).

    Computed from allocations, ``Measured`` and ends, and stored, since a report over a year would read millions of
    them; ``manage.py usage_rebuild`` recomputes it.
    """

    day = models.DateField()
    vc = models.ForeignKey(VirtualCluster, on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    sku = models.ForeignKey(Sku, on_delete=models.CASCADE, related_name="+")
    guaranteed_ms = models.BigIntegerField()
    opportunistic_ms = models.BigIntegerField()
    grown_ms = models.BigIntegerField(default=0, db_default=0, help_text="of these, by extra tasks of elastic jobs")
    measured_ms = models.BigIntegerField()
    used_ms = models.BigIntegerField()
    idle_ms = models.BigIntegerField()
    wasted_ms = models.BigIntegerField()

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["day", "vc", "user", "sku"], name="usage_day_once")]

    def __str__(self) -> str:
        return f"{self.day}: {self.sku_id} of {self.user_id} in {self.vc_id}"


class UsageProgress(models.Model):
    """A single row: readings before ``folded_to`` are in the records and in ``Measured``, days before ``rolled_to`` in
    ``UsageDay``. Each step moves it on from its old value, so that no step is taken twice."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    folded_to = models.DateTimeField()
    rolled_to = models.DateField()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="one_usage_progress")]

    def __str__(self) -> str:
        return f"folded to {self.folded_to}, rolled to {self.rolled_to}"
