"""Folders of code that were uploaded to come with jobs. The archives are files; a row says what there is."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class CodeFolder(models.Model):
    """A packed folder, stored once whoever uploads it. ``used_at``: when it was last uploaded or named by a job."""

    sha256 = models.CharField(max_length=64, unique=True, help_text="of the archive, in hex")
    size = models.PositiveBigIntegerField(help_text="bytes of the archive")
    unpacked = models.PositiveBigIntegerField(help_text="bytes of the files in it")
    entries = models.PositiveIntegerField(help_text="files, folders and links in it")
    created_at = models.DateTimeField()
    used_at = models.DateTimeField(db_index=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """How a job file calls it."""
        return f"sha256:{self.sha256}"


class CodeUpload(models.Model):
    """Who uploaded a folder, and may name it in a job file for that."""

    code = models.ForeignKey(CodeFolder, on_delete=models.CASCADE, related_name="uploads")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    at = models.DateTimeField()

    class Meta:
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["code", "user"], name="code_upload_once")]

    def __str__(self) -> str:
        return f"{self.code_id} by {self.user_id}"
