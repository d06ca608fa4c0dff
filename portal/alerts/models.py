"""The state of alerting: which alerts were sent, and which are silenced."""

from __future__ import annotations

from django.db import models

KEY_LENGTH = 500
"""Fits an alert's code, its kind, and the longest name, a job's."""


class AlertWatch(models.Model):
    """A single row: when alerts were last looked at, which of them last, and which of those were sent
    (``telling.Entry`` by alert key). Alerts themselves are computed anew each time."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    looked_at = models.DateTimeField()
    known = models.JSONField(default=dict)

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="one_alert_watch")]

    def __str__(self) -> str:
        return f"{len(self.known)} at {self.looked_at}"


class AlertSilence(models.Model):
    """An administrator's silence of an alert, by its key, until a time, unless it gets worse. A row without a severity
    of its own, from an older portal, covers all."""

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
