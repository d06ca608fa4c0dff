"""When the portal was backed up, when it was restored, what the logs that it keeps take, and which data folder is the
database's."""

from __future__ import annotations

from django.db import models


class Backup(models.Model):
    """A backup that was made."""

    made_at = models.DateTimeField(db_index=True, help_text="the moment that it holds")
    path = models.TextField(help_text="where it was written")
    size = models.BigIntegerField(help_text="bytes")

    def __str__(self) -> str:
        return f"{self.path} of {self.made_at:%Y-%m-%d %H:%M}"


class Restore(models.Model):
    """The portal was put back to what it was at ``made_at``: what happened from then on it does not know, nodes do."""

    made_at = models.DateTimeField(help_text="the moment that the backup holds")
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.made_at:%Y-%m-%d %H:%M} at {self.at:%Y-%m-%d %H:%M}"


class DataFolder(models.Model):
    """The one row: what the file ``folder.id`` holds in the folder that all processes of the portal share."""

    mark = models.CharField(max_length=64)

    def __str__(self) -> str:
        return self.mark
