"""Storages: folders that nodes mount."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from portal.common.names import NAME
from portal.teams.models.teams import VirtualCluster


class Storage(models.Model):
    """A folder tree that nodes mount. ``jobs``: the job folders are in it."""

    name = models.CharField(max_length=64, unique=True, validators=[NAME])
    kind = models.CharField(max_length=8, choices=[("path", "path"), ("nfs", "nfs")], default="path")
    root = models.CharField(max_length=500, help_text="path on every node that offers it")
    export = models.CharField(max_length=500, blank=True, help_text="nfs only: server:/export")
    options = models.CharField(
        max_length=300, blank=True, default="", db_default="", help_text="nfs only: what to mount it with"
    )
    read_only = models.BooleanField(default=False)
    per_user = models.BooleanField(default=False, help_text="each user sees only a folder of their own")
    must_be_mount = models.BooleanField(default=True)
    jobs = models.BooleanField(default=False)
    everyone = models.BooleanField(default=False)
    vcs = models.ManyToManyField(VirtualCluster, blank=True, related_name="storages")

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["jobs"], condition=Q(jobs=True), name="one_storage_for_jobs")]

    def __str__(self) -> str:
        return self.name

    @property
    def only_read(self) -> bool:
        """Whether jobs get it read-only. A job that could write beside job folders could put a link where one is about
        to be mounted."""
        return self.read_only or self.jobs

    @property
    def is_mount(self) -> bool:
        """Whether it is only available where something is mounted at its root."""
        return self.must_be_mount or bool(self.export)
