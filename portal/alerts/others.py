"""Alerts of quotas, storages, containers, jobs and backups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Count, QuerySet, prefetch_related_objects
from django.utils.translation import gettext, ngettext

from nodes.protocol.states import Cause
from portal.accounts.models import User
from portal.alerts.alert import Alert, Severity
from portal.common.prepared import Prepared
from portal.common.sentences import some_of, worded
from portal.data_folder.models import Backup
from portal.hardware.doomed import DoomedCells, closed_everywhere, doomed_everywhere
from portal.idle.hangs import hang_signs, hanging
from portal.idle.models import StepWatch
from portal.idle.selectors import idle_warnings
from portal.jobs.models import Job, TaskAttempt
from portal.jobs.selectors.overdue import stops_overdue
from portal.jobs.selectors.visible import with_task
from portal.jobs.states import OWNER_GONE, JobState
from portal.storages.models import Storage
from portal.storages.selectors.storages import Offered, StoragePlaces, storages_placed
from portal.teams.models import VirtualCluster

NAMED = 5


def quota_alerts() -> Iterator[Alert]:
    """Quota that could not be provided now."""
    for vc, cells in sorted((doomed_everywhere() or {}).items()):
        told = _cells(cells)
        message = gettext(
            "Quota at risk: %(told)s of it would have to sit on bad hardware if they were wanted now."
        ) % {"told": told}
        advice = gettext("Repair or uncordon nodes, or change the quotas.")
        yield Alert("quota_at_risk", Severity.WARNING, "vc", vc, message, advice, vcs=(vc,))
    for vc, cells in sorted((closed_everywhere() or {}).items()):
        message = gettext("Quota closed: %(told)s of it could not be had now, since nodes are drained or cordoned.") % {
            "told": _cells(cells)
        }
        advice = gettext("Open the nodes again when their work is done: what waits for them starts by itself then.")
        yield Alert("quota_closed", Severity.INFO, "vc", vc, message, advice, vcs=(vc,))


def _cells(cells: Iterable[DoomedCells]) -> str:
    return ", ".join(f"{one.cells} x {one.cell_type}" for one in cells)


def storage_alerts(offered: Offered) -> Iterator[Alert]:
    """Storages that some healthy nodes do not offer. At most three queries."""
    placed = storages_placed(storages=_STORAGES(), offered=offered)
    bad = [one for one in placed if one.missing]
    prefetch_related_objects([one.storage for one in bad], "vcs")
    everybodys = any(one.storage.everyone or one.storage.jobs for one in bad)
    every = tuple(_TEAMS()) if everybodys else ()
    for one in bad:
        storage = one.storage
        whose = every if storage.everyone or storage.jobs else tuple(sorted(vc.name for vc in storage.vcs.all()))
        if storage.export:
            advice = gettext(
                "See on the nodes' pages why; their agents mount it where BERTH_NODE_NFS_SERVERS allows it."
            )
        else:
            advice = gettext("Mount it at %(root)s there, and allow that folder (BERTH_NODE_MOUNT_ROOTS).")
        yield Alert("storage_missing", _how_bad(one), "storage", storage.name, _where(one),
                    advice % {"root": storage.root}, vcs=whose)  # fmt: skip


_STORAGES = Prepared(lambda: Storage.objects.order_by("name"))
_TEAMS = Prepared(lambda: VirtualCluster.objects.order_by("name").values_list("name", flat=True))


def _how_bad(placed: StoragePlaces) -> Severity:
    """Data may be on some nodes only; job folders must be on all."""
    if placed.storage.jobs:
        return Severity.WARNING if placed.nodes else Severity.CRITICAL
    return Severity.INFO if placed.nodes else Severity.WARNING


def _where(placed: StoragePlaces) -> str:
    if not placed.nodes:
        return gettext("No healthy node offers it.")
    return gettext("These nodes do not offer it: %(nodes)s.") % {"nodes": some_of(placed.missing, NAMED)}


def container_alerts(now: datetime) -> Iterator[Alert]:
    """Containers that survive SIGKILL and still hold their GPUs, and those whose end was never reported. At most four
    queries."""
    for row in _UNKILLABLE():
        advice = gettext(
            "Its processes hang in the kernel, mostly on a lost file server or GPU: bring that back, or reboot."
        )
        yield _does_not_end(row, "", advice, row.ended_at)
    overdue = stops_overdue(now=now, given_up=True)
    for row in _of_whom(TaskAttempt.objects.filter(pk__in=overdue)) if overdue else ():
        words = row.progress.get("message")
        said = gettext("Its node said last: %(words)s.") % {"words": words} if words else ""
        advice = gettext(
            "Its server does not end it. See there what hangs (journalctl -u docker -u containerd -u berth-node), and "
            "restart that, or reboot. Its job does not wait for it; its GPUs are held until the server says that it is "
            "gone."
        )
        yield _does_not_end(row, said, advice, row.stop_since)


def _does_not_end(row: TaskAttempt, said: str, advice: str, since: datetime | None) -> Alert:
    job, node = row.task.job, row.node.name
    names = {"task": f"{row.task.role.name}/{row.task.index}", "job": job.label, "node": node}
    message = f"{gettext('Task %(task)s of %(job)s does not end on %(node)s.') % names} {said}".strip()
    return Alert("container_unkillable", Severity.CRITICAL, "node", node, message, advice, since, (job.vc.name,),
                 ref=str(row.pk))  # fmt: skip


def _of_whom(rows: QuerySet[TaskAttempt]) -> QuerySet[TaskAttempt]:
    return with_task(rows).select_related("task__job__user").order_by("created_at")


def _unkillable() -> QuerySet[TaskAttempt]:
    return _of_whom(TaskAttempt.objects.filter(cause=str(Cause.UNKILLABLE), released_at__isnull=True))


_UNKILLABLE = Prepared(_unkillable)
_IDLE = Prepared(idle_warnings)
_HANGS = Prepared(lambda: hanging(StepWatch.objects.all()))
_BACKUP = Prepared(lambda: Backup.objects.order_by("-made_at")[:1])
_OLDEST = Prepared(lambda: User.objects.order_by("pk")[:1])


def idle_alerts() -> Iterator[Alert]:
    """Running jobs whose GPUs are idle. One query."""
    for one in _IDLE():
        job = one.job_attempt.job
        numbers = {"number": one.gpus, "percent": one.percent, "time": f"{one.since:%Y-%m-%d %H:%M}"}
        message = ngettext(
            "Its %(number)s GPU is below %(percent)s %% since %(time)s UTC.",
            "Its %(number)s GPUs are below %(percent)s %% since %(time)s UTC.",
            one.gpus,
        )
        advice = gettext("Ask its owner, stop it, or except it from the idle policy.")
        yield Alert("job_idle", Severity.INFO, "job", job.label, message % numbers, advice, one.since, (job.vc.name,))


def hang_alerts() -> Iterator[Alert]:
    """Running trainings that seem to hang. One query."""
    for one in _HANGS():
        task = one.task_attempt.task
        numbers = {
            "task": f"{task.role.name}/{task.index}", "step": f"{one.step:,}", "time": f"{one.moved_at:%Y-%m-%d %H:%M}",
            "signs": worded(hang_signs(one)),
        }  # fmt: skip
        message = gettext("Task %(task)s has stood at step %(step)s since %(time)s UTC: %(signs)s.")
        advice = gettext("Ask its owner to look into it: a part of it may wait for another that is gone.")
        job, vcs = task.job, (task.job.vc.name,)
        yield Alert("job_hangs", Severity.WARNING, "job", job.label, message % numbers, advice, one.moved_at, vcs)


def owner_alerts() -> Iterator[Alert]:
    """Jobs held because their owners may no longer run jobs in that virtual cluster. One query."""
    for vc, user, count in _HELD():
        message = ngettext(
            "%(number)s job of %(user)s, who may not run jobs in %(vc)s any more, is held.",
            "%(number)s jobs of %(user)s, who may not run jobs in %(vc)s any more, are held.",
            count,
        ) % {"number": count, "user": user, "vc": vc}
        advice = gettext("Let each run for the team, or stop it, on its page.")
        yield Alert("owner_gone", Severity.INFO, "vc", vc, message, advice, vcs=(vc,), ref=f"{vc}:{user}")


def _held() -> QuerySet[Job, tuple[str, str, int]]:
    rows = Job.objects.filter(state=JobState.WAITING, waiting_code=OWNER_GONE, kept=False).order_by()
    each = rows.values_list("vc__name", "user__username").annotate(Count("pk"))
    return each.order_by("vc__name", "user__username")


_HELD = Prepared(_held)


def backup_alerts(now: datetime) -> Iterator[Alert]:
    """The last backup is too old, or a portal of that age has none. At most two queries."""
    days = settings.BACKUP_DAYS
    if not days:
        return
    last = _BACKUP.first()
    begun = None if last else _OLDEST.first()
    since = last.made_at if last else begun.date_joined if begun else now
    if now - since > timedelta(days=days):
        old = {"days": (now - since).days}
        message = (
            gettext("The last backup is of %(days)s days ago") % old if last else gettext("No backup was ever made")
        )
        advice = gettext("Have `manage.py backup FILE` run each night, and keep the file on another machine.")
        yield Alert("backup_old", Severity.WARNING, "portal", "backup", f"{message}.", advice, since)
