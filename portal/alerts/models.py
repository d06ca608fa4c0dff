"""What was told of alerts, and which are silenced."""

from __future__ import annotations

from django.db import models

KEY_LENGTH = 500
"""Of an alert: its code, its kind, and the longest name that there is, a job's."""


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
