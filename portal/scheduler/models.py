"""The lease of the scheduling cycle, and the reservations that one plan leaves for the next."""

from __future__ import annotations

from django.db import models


class CycleLease(models.Model):
    """Singleton: who runs the cycle, and until when. Saves double work; correctness never rests on it."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    holder = models.CharField(max_length=100, blank=True)
    until = models.DateTimeField()
    well_at = models.DateTimeField(null=True, blank=True, help_text="the last cycle that could do what it decided")

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="one_lease")]

    def __str__(self) -> str:
        return f"{self.holder} until {self.until}"


class Reservations(models.Model):
    """Singleton: the jobs (ids) for which the last plan reserved cells. ``version`` grows with every change: of two
    schedulers' lists only the one made from the current list is taken."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    jobs = models.JSONField(default=list)
    version = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="one_list_of_reservations")]

    def __str__(self) -> str:
        return f"{self.jobs} ({self.version})"
