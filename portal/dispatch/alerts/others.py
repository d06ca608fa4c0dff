"""What is wrong with quotas, storages, containers and the portal itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import QuerySet, prefetch_related_objects

from nodes.protocol import Cause
from portal.clusters.doomed import doomed_everywhere
from portal.clusters.models import ReportsLane, Storage, VirtualCluster
from portal.clusters.selectors import storages_placed
from portal.clusters.selectors.storages import Offered, StoragePlaces
from portal.common.prepared import Prepared
from portal.dispatch.alerts.alert import Alert, Severity
from portal.dispatch.alerts.nodes import LOW, VERY_LOW
from portal.dispatch.models import CycleLease
from portal.jobs.models import TaskAttempt
from portal.jobs.selectors import idle_warnings, with_task

STANDS_STILL = timedelta(seconds=30)
NAMED = 5


def quota_alerts() -> Iterator[Alert]:
    """Quota that could not be had now."""
    for vc, cells in sorted((doomed_everywhere() or {}).items()):
        told = ", ".join(f"{one.cells} x {one.cell_type}" for one in cells)
        message = f"Quota at risk: {told} of it would have to sit on bad hardware if they were wanted now."
        advice = "Repair or uncordon nodes, or change the quotas."
        yield Alert("quota_at_risk", Severity.WARNING, "vc", vc, message, advice, vcs=(vc,))


def storage_alerts(offered: Offered) -> Iterator[Alert]:
    """Storages that healthy nodes do not offer. At most three queries."""
    placed = storages_placed(storages=_STORAGES(), offered=offered)
    bad = [one for one in placed if one.missing]
    prefetch_related_objects([one.storage for one in bad], "vcs")
    everybodys = any(one.storage.everyone or one.storage.jobs for one in bad)
    every = tuple(_TEAMS()) if everybodys else ()
    for one in bad:
        storage = one.storage
        whose = every if storage.everyone or storage.jobs else tuple(sorted(vc.name for vc in storage.vcs.all()))
        yield Alert("storage_missing", _how_bad(one), "storage", storage.name, _where(one),
                    f"Mount it at {storage.root} there, and allow that folder (BERTH_NODE_MOUNT_ROOTS).",
                    vcs=whose)  # fmt: skip


_STORAGES = Prepared(lambda: Storage.objects.order_by("name"))
_TEAMS = Prepared(lambda: VirtualCluster.objects.order_by("name").values_list("name", flat=True))


def _how_bad(placed: StoragePlaces) -> Severity:
    """Data may lie on some nodes only; job folders belong on all."""
    if placed.storage.jobs:
        return Severity.WARNING if placed.nodes else Severity.CRITICAL
    return Severity.INFO if placed.nodes else Severity.WARNING


def _where(placed: StoragePlaces) -> str:
    if not placed.nodes:
        return "No healthy node offers it."
    more = f" and {len(placed.missing) - NAMED} more" if len(placed.missing) > NAMED else ""
    return f"These nodes do not offer it: {', '.join(placed.missing[:NAMED])}{more}."


def container_alerts() -> Iterator[Alert]:
    """Containers that outlive SIGKILL and still hold their GPUs."""
    for row in _UNKILLABLE():
        job = row.task.job
        message = f"Task {row.task.role.name}/{row.task.index} of {job.label} does not end on {row.node.name}."
        advice = "Its processes hang in the kernel, mostly on a lost file server or GPU: bring that back, or reboot."
        yield Alert("container_unkillable", Severity.CRITICAL, "node", row.node.name, message, advice, row.ended_at,
                    (job.vc.name,))  # fmt: skip


def _unkillable() -> QuerySet[TaskAttempt]:
    held = with_task(TaskAttempt.objects.filter(cause=str(Cause.UNKILLABLE), released_at__isnull=True))
    return held.select_related("task__job__user").order_by("created_at")


_UNKILLABLE = Prepared(_unkillable)
_IDLE = Prepared(idle_warnings)
_LEASE = Prepared(lambda: CycleLease.objects.order_by()[:1])
_LANE = Prepared(lambda: ReportsLane.objects.order_by()[:1])


def idle_alerts() -> Iterator[Alert]:
    """Running jobs that hold GPUs and do not use them. One query."""
    for one in _IDLE():
        job = one.job_attempt.job
        message = f"Its {one.gpus} GPU{'s' * (one.gpus != 1)} are below {one.percent} % since {one.since:%H:%M} UTC."
        advice = "Ask its owner, stop it, or except it from the idle policy."
        yield Alert("job_idle", Severity.INFO, "job", job.label, message, advice, one.since, (job.vc.name,))


def portal_alerts(now: datetime) -> Iterator[Alert]:
    """Parts of the portal that stand still, and its disk. Two queries."""
    lease, lane = _LEASE.first(), _LANE.first()
    if lease is None or now - lease.until > STANDS_STILL:
        advice = "Start it (celery -A portal worker -Q scheduler -B), and see that it reaches database and Redis."
        message, since = "No scheduler works: nothing starts.", lease.until if lease else None
        yield Alert("scheduler_stopped", Severity.CRITICAL, "portal", "scheduler", message, advice, since)
    if lane is None or now - lane.last_pulse_at > STANDS_STILL:
        advice = "Start a worker for them (celery -A portal worker -Q reports), and see that it reaches Redis."
        message, since = "Nodes' reports are not taken in.", lane.last_pulse_at if lane else None
        yield Alert("reports_stopped", Severity.CRITICAL, "portal", "reports", message, advice, since)
    disk = shutil.disk_usage(settings.DATA_DIR)
    free = 100 * disk.free // disk.total
    if free < LOW:
        severity = Severity.CRITICAL if free < VERY_LOW else Severity.WARNING
        yield Alert("disk_low", severity, "portal", "data folder", f"{free} % of the disk with {settings.DATA_DIR} are "
                    "free.", "Give it room: logs, keys and, with SQLite, the database lie there.")  # fmt: skip
