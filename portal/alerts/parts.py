"""Alerts of the portal's own processes and disk."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.utils.translation import gettext

from portal.alerts.alert import Alert, Severity
from portal.alerts.models import AlertWatch
from portal.alerts.nodes import LOW, VERY_LOW
from portal.common.asking import Asking
from portal.common.prepared import Prepared
from portal.hardware.clocks import LIMIT_MS
from portal.hardware.models import ReportsLane
from portal.hardware.silences import portal_late_ms
from portal.jobs.models import Job
from portal.jobs.states import JobState
from portal.scheduler.models import CycleLease

STANDS_STILL = timedelta(seconds=30)
CONTROL_STOPPED = timedelta(minutes=1)
"""Without a look at the alerts, which is due every 15 s."""
STANDING = timedelta(minutes=5)
"""Without a successful cycle. Cycles follow each other by the second, and the longest ever measured took some seconds;
a restart of the scheduler or its database takes less than a minute. Waiting for a full cluster does not count: such
cycles decide nothing, and succeed."""
ANSWERS_WITHIN_S = 2.0
"""Deadline for the data folder; a healthy file server answers in milliseconds."""

_LEASE = Prepared(lambda: CycleLease.objects.order_by()[:1])
_LANE = Prepared(lambda: ReportsLane.objects.order_by()[:1])


def portal_alerts(now: datetime, watch: AlertWatch | None) -> Iterator[Alert]:
    """Stopped processes of the portal, and its disk. Three queries, and one more if cycles fail."""
    yield from _stopped(now, watch)
    yield from _behind(now)
    yield from _disk()


def _stopped(now: datetime, watch: AlertWatch | None) -> Iterator[Alert]:
    lease, lane = _LEASE.first(), _LANE.first()
    if lease is None or _silent(lease.until, now, STANDS_STILL):
        advice = gettext(
            "Start it (celery -A portal worker -Q scheduler -B), and see that it reaches database and Redis."
        )
        message, since = gettext("No scheduler works: nothing starts."), lease.until if lease else None
        yield Alert("scheduler_stopped", Severity.CRITICAL, "portal", "scheduler", message, advice, since)
    elif lease.well_at and now - lease.well_at > STANDING and _waits():
        message = gettext("Jobs wait, and for %(minutes)s minutes no cycle of the scheduler could do its work.")
        advice = gettext("The scheduler's log says what each cycle fails of; nothing starts until it does not.")
        minutes = {"minutes": int((now - lease.well_at).total_seconds() // 60)}
        yield Alert("queue_standing", Severity.CRITICAL, "portal", "queue", message % minutes, advice, lease.well_at)
    if lane is None or _silent(lane.last_pulse_at, now, STANDS_STILL):
        advice = gettext("Start a worker for them (celery -A portal worker -Q reports), and see that it reaches Redis.")
        message, since = gettext("Nodes' reports are not taken in."), lane.last_pulse_at if lane else None
        yield Alert("reports_stopped", Severity.CRITICAL, "portal", "reports", message, advice, since)
    if watch is None or _silent(watch.looked_at, now, CONTROL_STOPPED):
        advice = gettext(
            "Start one (celery -A portal worker -Q control), and see that it reaches the database; the log of one that "
            "runs says what each look fails of."
        )
        message = gettext(
            "No control worker works, or each look at the alerts fails: no alert is told by mail or webhook, and logs "
            "may not be archived."
        )
        since = watch.looked_at if watch else None
        yield Alert("control_stopped", Severity.CRITICAL, "portal", "control", message, advice, since)


def _behind(now: datetime) -> Iterator[Alert]:
    if (late := portal_late_ms(now=now)) > LIMIT_MS:
        message = gettext("The portal takes nodes' reports in %(seconds)s s late, those of all nodes alike.")
        advice = gettext(
            "Start one more worker for them (celery -A portal worker -Q reports), or find out what keeps this server "
            "and its database busy. Where it has time enough, its own clock is wrong."
        )
        told = message % {"seconds": late // 1000}
        yield Alert("reports_late", Severity.WARNING, "portal", "reports", told, advice)


def _silent(at: datetime, now: datetime, limit: timedelta) -> bool:
    """Whether a process has not written this time lately. A time in the future (the clock was corrected since) is fixed
    at once by a live process; a lease ends a little after now."""
    return now - at > limit or at - now > max(limit, timedelta(seconds=2 * settings.LEASE_SECONDS))


def _waits() -> bool:
    return Job.objects.filter(state=JobState.WAITING, paused=False).exists()


def _disk() -> Iterator[Alert]:
    name, folder = gettext("data folder"), settings.DATA_DIR
    try:
        disk = _USAGE.answer()
    except OSError as error:  # includes TimeoutError, which has no strerror
        message = gettext("The data folder %(folder)s cannot be read: %(why)s.")
        advice = gettext(
            "Bring its disk or its file server back, and mount it where it was, on each machine of the portal: logs, "
            "keys and uploads lie there. Jobs run on, and their nodes keep what their logs say."
        )
        why = error.strerror or gettext("it does not answer")
        yield Alert("data_folder_away", Severity.CRITICAL, "portal", name, message % {"folder": folder, "why": why},
                    advice, ref="data")  # fmt: skip
        return
    free = 100 * disk.free // disk.total
    if free < LOW:
        severity = Severity.CRITICAL if free < VERY_LOW else Severity.WARNING
        message = gettext("%(free)s %% of the disk with %(folder)s are free.")
        advice = gettext("Give it room: logs, keys and, with SQLite, the database lie there.")
        yield Alert("disk_low", severity, "portal", name, message % {"free": free, "folder": folder}, advice,
                    ref="data")  # fmt: skip


_USAGE = Asking(lambda: shutil.disk_usage(settings.DATA_DIR), ANSWERS_WITHIN_S)
