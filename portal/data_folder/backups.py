"""What is remembered of backups."""

from __future__ import annotations

from datetime import datetime

from portal.data_folder.models import Backup, Restore

KEPT = 100


def backup_note(*, path: str, size: int, made_at: datetime) -> None:
    """A backup was made; the last hundred are remembered."""
    Backup.objects.create(path=path, size=size, made_at=made_at)
    last = Backup.objects.order_by("-pk").values_list("pk", flat=True)[KEPT : KEPT + 1]
    Backup.objects.filter(pk__lte=max(last, default=0)).delete()


def restore_note(*, made_at: datetime, now: datetime) -> None:
    """The portal was restored from a backup."""
    Restore.objects.create(made_at=made_at, at=now)
