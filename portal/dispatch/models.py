"""The lease of the scheduling cycle."""

from __future__ import annotations

from django.db import models


class CycleLease(models.Model):
    """One row: who runs the cycle, and until when. Saves double work; correctness never rests on it."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    holder = models.CharField(max_length=100, blank=True)
    until = models.DateTimeField()

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="one_lease")]

    def __str__(self) -> str:
        return f"{self.holder} until {self.until}"
