"""Alerts of job folders that should have been deleted days ago, or that unknown containers hold back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Count, Max, QuerySet
from django.utils.translation import gettext, gettext_noop, ngettext

from portal.alerts.alert import Alert, Severity
from portal.common.prepared import Prepared
from portal.files.models import KeptFolder
from portal.files.selectors import FAILED_FOR_DAYS, HELD, folders_free, folders_held
from portal.hardware.models import Node
from portal.hardware.selectors.unknown_containers import node_strangers

SHOWN = 20
"""Nodes with unknown containers whose folders are counted: one query each."""
ADVICE = gettext_noop(
    "See on the node's page whether its unknown containers are wanted, and have them stopped there where they are not."
)


def folder_alerts(now: datetime) -> Iterator[Alert]:
    """One alert for each storage with such folders, and one for each node that holds some back. Two queries, and more
    if nodes have unknown containers."""
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
    if settings.JOB_FOLDER_DAYS:
        for node in _STRANGE()[:SHOWN]:
            yield from _kept_back(node, now)


def _kept_back(node: Node, now: datetime) -> Iterator[Alert]:
    """The folders that a node's unknown containers hold back, or that they no longer can."""
    over = now - timedelta(days=settings.JOB_FOLDER_DAYS)
    number = folders_free().filter(folders_held(now=now, node=node), job__ended_at__lt=over).count()
    since = min((one.seen_at for one in node_strangers(node)), default=now)
    if number:
        message = ngettext(
            "Its unknown containers keep %(number)s job folder from being deleted, for %(days)s days at most.",
            "Its unknown containers keep %(number)s job folders from being deleted, each for %(days)s days at most.",
            number,
        )
    elif now - since > HELD:
        message = gettext(
            "It has had unknown containers for more than %(days)s days: folders of jobs that ran there are deleted all "
            "the same once their time has been over for so long."
        )
    else:
        return
    told = message % {"number": number, "days": HELD.days}
    yield Alert("job_folders_held", Severity.WARNING, "node", node.name, told, gettext(ADVICE), since)


def _stuck() -> QuerySet[KeptFolder, tuple[str, int, str]]:
    rows = KeptFolder.objects.filter(deleted_at=None, failures__gte=FAILED_FOR_DAYS, storage__isnull=False).order_by()
    told = rows.values("storage__name").annotate(number=Count("pk"), told=Max("fault"))
    return told.order_by("storage__name").values_list("storage__name", "number", "told")


def _strange() -> QuerySet[Node]:
    return Node.objects.exclude(strangers={}).only("name", "strangers", "storages", "storage_faults").order_by("name")


_STUCK = Prepared(_stuck)
_STRANGE = Prepared(_strange)
