"""Celery's way in: fetch, call the service, return."""

from __future__ import annotations

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from portal.jobs.logs.archive import Archive
from portal.jobs.logs.archiver import archive_sweep
from portal.jobs.logs.quota import logs_give_way
from portal.jobs.logs.retention import logs_expire
from portal.jobs.logs.stream import streams_client
from portal.jobs.metrics.folding import samples_fold
from portal.jobs.metrics.record import Records
from portal.jobs.services.code import code_expire
from portal.jobs.services.idle import idle_judge
from portal.jobs.services.rollup import usage_open_days_keep, usage_roll
from portal.jobs.sessions.deleting import folders_expire
from portal.jobs.sessions.proving import storages_prove


@shared_task(name="control.archive_sweep")
def sweep() -> None:
    """Archive the logs that are due."""
    archive_sweep(now=timezone.now())


@shared_task(name="control.logs_expire")
def expire() -> None:
    """Delete old logs: one part of the archive each minute, all of it each five hours."""
    now = timezone.now()
    logs_expire(archive=Archive(settings.LOG_DIR), now=now, part=int(now.timestamp()) // 60)


@shared_task(name="control.logs_give_way")
def give_way() -> None:
    """Delete the logs that virtual clusters have no room for."""
    logs_give_way(archive=Archive(settings.LOG_DIR), now=timezone.now())


@shared_task(name="control.folders_expire")
def expire_folders() -> None:
    """Have the folders of jobs deleted that ended long ago."""
    folders_expire(now=timezone.now())


@shared_task(name="control.storages_prove")
def prove_storages() -> None:
    """Have servers show that they see the storages that they are tied to."""
    storages_prove(now=timezone.now())


@shared_task(name="control.code_expire")
def forget_code() -> None:
    """Delete uploaded code that no job names."""
    code_expire(now=timezone.now())


@shared_task(name="control.samples_fold")
def fold() -> None:
    """Put what tasks used in the minutes that are over into their records."""
    samples_fold(now=timezone.now(), redis=streams_client(), records=Records(settings.METRICS_DIR))


@shared_task(name="control.usage_roll")
def roll() -> None:
    """Sum up the usage of days that are over, and keep what the others add up to so far."""
    now = timezone.now()
    usage_roll(now=now)
    usage_open_days_keep(now=now)


@shared_task(name="control.idle_judge")
def judge() -> None:
    """Warn of idle GPUs, and do what was announced."""
    idle_judge(now=timezone.now())
