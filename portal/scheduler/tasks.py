"""Celery's way in: fetch, call the service, return."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone
from prometheus_client import Counter, Histogram

from nodes.protocol.names import REPORT_TASK
from portal.common.wake import LOOK_TASK
from portal.hardware.services.silence import lane_pulse
from portal.scheduler.cycle import Scheduler
from portal.scheduler.doomed import doomed_find
from portal.scheduler.reports import report_take

REPORT_SECONDS = Histogram("berth_report_seconds", "Time that a node's report takes")
REPORTS = Counter("berth_reports_total", "Reports of nodes", ["result"])


SCHEDULER = Scheduler()
"""This process's, if it is the scheduler's; in others it stays unused and empty."""


@shared_task(name=LOOK_TASK)
def look() -> None:
    """Look whether something can be started."""
    try:
        SCHEDULER.cycle(now=timezone.now())
    finally:
        SCHEDULER.garbage.collect()  # failed cycles leave garbage, too


@shared_task(name="control.find_doomed")
def find_doomed() -> None:
    """Find quota that could not be had now, since hardware is bad or nodes are closed."""
    doomed_find(now=timezone.now())


@shared_task(name=REPORT_TASK)
def node_report(envelope: str) -> None:
    """A node's report."""
    with REPORT_SECONDS.time():
        taken = report_take(text=envelope, now=timezone.now())
    REPORTS.labels("taken" if taken else "refused").inc()


@shared_task(name="reports.pulse")
def pulse() -> None:
    """A sign that this lane takes reports in."""
    lane_pulse(now=timezone.now())
