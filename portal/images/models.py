"""Which images jobs may run."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from portal.teams.models.teams import PROFILES, VirtualCluster

PATTERN_LENGTH = 300


class ImageRule(models.Model):
    """Images whose names a shell pattern means may run: in one virtual cluster, or (``vc`` empty) in all that have no
    such rows of their own. Where there are none at all, every image may. ``profile``: as whom at most: ``root``: as the
    virtual cluster says; ``user``: as the job's user there, too."""

    vc = models.ForeignKey(VirtualCluster, null=True, blank=True, on_delete=models.CASCADE, related_name="image_rules")
    pattern = models.CharField(max_length=PATTERN_LENGTH)
    profile = models.CharField(max_length=10, choices=PROFILES, default="root", db_default="root")
    note = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["vc", "pattern"], condition=Q(vc__isnull=False), name="image_rule_of_vc"),
            models.UniqueConstraint(fields=["pattern"], condition=Q(vc__isnull=True), name="image_rule_of_cluster"),
        ]

    def __str__(self) -> str:
        return f"{self.pattern} in {self.vc_id or 'all'}"
