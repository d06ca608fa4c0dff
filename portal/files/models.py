"""Location and fate of job folders."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from portal.jobs.models.job import Job
from portal.storages.models import Storage


class KeptFolder(models.Model):
    """The folder that a job's tasks were given. Jobs older than this table have no row, nor have jobs whose folder was
    inside their container: nothing of theirs is ever deleted."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="kept_folder", primary_key=True)
    storage = models.ForeignKey(
        Storage, null=True, on_delete=models.SET_NULL, related_name="+", help_text="empty: it is forgotten"
    )
    path = models.CharField(max_length=1000, help_text="on every node that offers the storage")
    deleted_at = models.DateTimeField(null=True, blank=True)
    next_at = models.DateTimeField(null=True, blank=True, help_text="not asked of a node before then")
    failures = models.PositiveSmallIntegerField(default=0, help_text="how often it was to be deleted and was not")
    fault = models.TextField(blank=True, help_text="why, the last time")

    class Meta:
        indexes = [
            models.Index(fields=["path"], name="kept_folder_path"),
            models.Index(fields=["failures"], condition=Q(deleted_at__isnull=True), name="kept_folder_there"),
        ]

    def __str__(self) -> str:
        return self.path
