"""Records the deletion of expired job folders. The nodes are asked in ``portal.files.deleting``."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.db.models import F, QuerySet

from portal.files.models import KeptFolder

AGAIN = timedelta(minutes=4)
"""A little less than the time between two rounds."""
FIRST, LONGEST = timedelta(hours=1), timedelta(days=1)

log = logging.getLogger(__name__)


def folder_gone(*, folder: KeptFolder, now: datetime) -> bool:
    """Records that a node has deleted the folder. False if that was known."""
    gone = _there(folder).update(deleted_at=now, next_at=None, fault="")
    if gone:
        log.info("the folder of job %s is deleted: %s", folder.pk, folder.path)
    return bool(gone)


def folder_going(*, folder: KeptFolder, now: datetime) -> None:
    """Records that a node is deleting it: it is asked again in a while."""
    _there(folder).update(next_at=now + AGAIN)


def folder_stays(*, folder: KeptFolder, why: str, now: datetime) -> None:
    """Records a failed deletion: retried in an hour, then after twice as long each time, up to a day."""
    wait = min(FIRST * 2 ** min(folder.failures, 10), LONGEST)
    _there(folder).update(next_at=now + wait, fault=why[:1000], failures=F("failures") + 1)
    log.warning("the folder of job %s could not be deleted: %s", folder.pk, why)


def _there(folder: KeptFolder) -> QuerySet[KeptFolder]:
    return KeptFolder.objects.filter(pk=folder.pk, deleted_at=None)
