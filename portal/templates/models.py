"""Job files that are kept to be submitted again and again."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from portal.common.names import NAME
from portal.teams.models import VirtualCluster


class JobTemplate(models.Model):
    """A job file under a name: of one user (``user``), of a virtual cluster (``vc``), or of everybody (neither).
    ``author``: who wrote it last, by name."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.CASCADE, related_name="job_templates"
    )
    vc = models.ForeignKey(
        VirtualCluster, null=True, blank=True, on_delete=models.CASCADE, related_name="job_templates"
    )
    name = models.CharField(max_length=64, validators=[NAME])
    description = models.TextField(blank=True)
    file = models.TextField(help_text="a valid job file without secrets, as it was typed")
    author = models.CharField(max_length=64)
    changed_at = models.DateTimeField()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(condition=Q(user__isnull=True) | Q(vc__isnull=True), name="template_one_home"),
            models.UniqueConstraint(fields=["user", "name"], condition=Q(user__isnull=False), name="template_of_user"),
            models.UniqueConstraint(fields=["vc", "name"], condition=Q(vc__isnull=False), name="template_of_vc"),
            models.UniqueConstraint(
                fields=["name"], condition=Q(user__isnull=True, vc__isnull=True), name="template_of_all"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def visibility(self) -> str:
        """Whose it is."""
        return "private" if self.user_id else "vc" if self.vc_id else "public"
