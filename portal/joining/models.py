"""Join tokens."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q


class JoinToken(models.Model):
    """Lets ``uses`` servers join until ``expires_at``. Only its hash is stored; ``prefix`` lets administrators
    recognise it. ``rack`` is passed on to the servers. ``accept``: servers that bring it are accepted with what their
    first report says; with ``cpu_tasks`` tasks without GPUs are placed there, too."""

    prefix = models.CharField(max_length=16)
    digest = models.CharField(max_length=64, unique=True)
    uses = models.PositiveIntegerField()
    used = models.PositiveIntegerField(default=0)
    rack = models.CharField(max_length=64, blank=True)
    accept = models.BooleanField(default=False, db_default=False)
    cpu_tasks = models.BooleanField(default=False, db_default=False)
    created_by = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [models.CheckConstraint(condition=Q(used__lte=F("uses")), name="join_token_uses")]

    def __str__(self) -> str:
        return f"{self.prefix}…"
