"""Storages: folders that nodes mount."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from portal.common.columns import asked, asked_names
from portal.common.names import NAME
from portal.teams.models.teams import VirtualCluster


class Storage(models.Model):
    """A folder tree that nodes mount. ``jobs``: the job folders are in it."""

    name = asked(
        models.CharField(max_length=64, unique=True, validators=[NAME], help_text="as job files call it"),
        _("Name"),
        _("Job files call it so."),
    )
    kind = asked(
        models.CharField(
            max_length=8, choices=[("path", "path"), ("nfs", "nfs")], default="path",
            help_text="`path`: a folder that each node mounts itself; `nfs`: agents mount its export",
        ),
        _("Kind"), _("The agents mount NFS; a folder is there already."),
        words={"path": _("Folder on each server"), "nfs": _("NFS")},
    )  # fmt: skip
    root = asked(
        models.CharField(max_length=500, help_text="absolute path on every node that offers it"),
        _("Folder"),
        _("Absolute, and the same on every server that offers it."),
        placeholder="/mnt/data",
    )
    export = asked(
        models.CharField(max_length=500, blank=True, help_text="of `nfs`: `server:/export`"),
        _("NFS export"),
        _("Of NFS only."),
        placeholder="filer:/data",
    )
    options = asked(
        models.CharField(
            max_length=300, blank=True, default="", db_default="", help_text="of `nfs`: `vers=4.2,nconnect=4`"
        ),
        _("Mount options"),
        _("Of NFS only."),
        placeholder="vers=4.2,nconnect=4",
    )
    read_only = asked(models.BooleanField(default=False), _("Read only"))
    per_user = asked(
        models.BooleanField(default=False, help_text="each user sees a folder of their own, and nothing else of it"),
        _("Each user has a folder of their own"),
        _(
            "and sees nothing else of it. Where jobs write, always so while a virtual cluster that may use it allows "
            "root."
        ),
    )
    must_be_mount = asked(
        models.BooleanField(default=True, help_text="where nothing is mounted at its root, a node does not offer it"),
        _("Only where something is mounted there"),
        _("A server with nothing mounted at the folder does not offer it."),
    )
    jobs = asked(
        models.BooleanField(default=False, help_text="job folders lie here; of one storage"),
        _("Job folders lie here"),
        _("Of one storage in the whole cluster."),
    )
    everyone = asked(models.BooleanField(default=False, help_text="every job may use it"), _("Every job may use it"))
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


COLUMNS = tuple(name for name in asked_names(Storage) if name != "name")
"""What can be changed of it."""
