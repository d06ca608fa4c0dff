"""Job folders that should have been deleted days ago."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Count, Max, QuerySet
from django.utils.translation import gettext, ngettext

from portal.common.prepared import Prepared
from portal.dispatch.alerts.alert import Alert, Severity
from portal.jobs.models import KeptFolder
from portal.jobs.selectors import FAILED_FOR_DAYS


def folder_alerts() -> Iterator[Alert]:
    """One for each storage in which some are. One query."""
    for storage, number, fault in _STUCK():
        message = ngettext(
            "%(number)s job folder could not be deleted for more than two days: %(fault)s",
            "%(number)s job folders could not be deleted for more than two days. Of one: %(fault)s",
            number,
        )
        advice = gettext(
            "See the files of these jobs for why; what cannot be deleted by a server, delete on the storage."
        )
        told = {"number": number, "fault": fault}
        yield Alert("job_folders", Severity.WARNING, "storage", storage, message % told, advice)


def _stuck() -> QuerySet[KeptFolder, tuple[str, int, str]]:
    rows = KeptFolder.objects.filter(deleted_at=None, failures__gte=FAILED_FOR_DAYS, storage__isnull=False).order_by()
    told = rows.values("storage__name").annotate(number=Count("pk"), told=Max("fault"))
    return told.order_by("storage__name").values_list("storage__name", "number", "told")


_STUCK = Prepared(_stuck)
