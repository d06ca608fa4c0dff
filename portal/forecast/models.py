"""When waiting jobs may start."""

from __future__ import annotations

from django.db import models

from portal.jobs.models import Job


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
