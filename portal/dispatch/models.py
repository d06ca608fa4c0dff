"""The lease of the scheduling cycle, what one plan leaves for the next, what was thought of starts, and what of
alerts was told."""

from __future__ import annotations

from django.db import models

from portal.jobs.models import Job

KEY_LENGTH = 500
"""Of an alert: its code, its kind, and the longest name that there is, a job's."""


class StartEstimate(models.Model):
    """When a waiting job was thought to start, and when it did."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+")
    made_at = models.DateTimeField()
    p50_at = models.DateTimeField(help_text="as likely before as after")
    p90_at = models.DateTimeField(help_text="by then, nine times in ten")
    started_at = models.DateTimeField(null=True, blank=True, help_text="what happened; empty: not yet")

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(fields=["job"], condition=models.Q(started_at=None), name="estimate_unscored"),
            models.Index(fields=["made_at"], name="estimate_made"),
        ]

    def __str__(self) -> str:
        return f"{self.job_id} by {self.p90_at}"


class CycleLease(models.Model):
    """One row: who runs the cycle, and until when. Saves double work; correctness never rests on it."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    holder = models.CharField(max_length=100, blank=True)
    until = models.DateTimeField()
    well_at = models.DateTimeField(null=True, blank=True, help_text="the last cycle that could do what it decided")

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="one_lease")]

    def __str__(self) -> str:
        return f"{self.holder} until {self.until}"


class Reservations(models.Model):
    """One row: the jobs (by id) for which the last plan kept cells. ``version`` grows with every change, so that of
    two schedulers' lists only the one made from the present list is taken."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    jobs = models.JSONField(default=list)
    version = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="one_list_of_reservations")]

    def __str__(self) -> str:
        return f"{self.jobs} ({self.version})"


class AlertWatch(models.Model):
    """One row: when alerts were looked at last, which those are that lasted, and which of them were told
    (``telling.Entry`` by the alert's key). Alerts themselves are worked out anew each time."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    looked_at = models.DateTimeField()
    known = models.JSONField(default=dict)

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="one_alert_watch")]

    def __str__(self) -> str:
        return f"{len(self.known)} at {self.looked_at}"


class AlertSilence(models.Model):
    """That an administrator wants no word of an alert until then, by the alert's key, unless it is worse than it was.
    One without a severity of its own, of a portal that knew none, holds for all."""

    key = models.CharField(max_length=KEY_LENGTH, unique=True)
    name = models.CharField(max_length=255, help_text="what the alert was of, as it was shown")
    severity = models.CharField(
        max_length=10, default="critical", db_default="critical", help_text="the worst of it that is not told"
    )
    reason = models.CharField(max_length=500)
    author = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    until = models.DateTimeField()

    class Meta:
        ordering = ["until", "id"]

    def __str__(self) -> str:
        return f"{self.key} until {self.until}"
