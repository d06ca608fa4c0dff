"""The lease of the scheduling cycle, what one plan leaves for the next, and what was thought of starts."""

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


class CycleLease(models.Model):
    """One row: who runs the cycle, and until when. Saves double work; correctness never rests on it."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    holder = models.CharField(max_length=100, blank=True)
    until = models.DateTimeField()

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
