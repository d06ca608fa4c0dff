"""Alerts that are looked at for a while, in a world in which nothing is wrong but what a test makes wrong."""

from __future__ import annotations

from datetime import datetime, timedelta

from pytest_django.fixtures import Settings

from portal.alerts.models import AlertWatch
from portal.alerts.telling import alerts_look
from portal.hardware.models import Node, ReportsLane
from portal.scheduler.models import CycleLease
from tests.support.cluster.world import World


def quiet_world(settings: Settings) -> World:
    """Two nodes, and nothing known of any alert."""
    settings.BACKUP_DAYS = 0
    made = World()
    for name in ("gpu01", "gpu02"):
        made.node(name, gpus=1)
    made.settle()
    AlertWatch.objects.all().delete()
    return made


def looks(start: datetime, lasting: timedelta, *, step: timedelta = timedelta(seconds=15)) -> datetime:
    """Looks at each step for so long, while scheduler and reports go on; when it ended."""
    now = start
    while now <= start + lasting:
        Node.objects.update(last_report_at=now)
        CycleLease.objects.update(until=now, well_at=now)
        ReportsLane.objects.update(last_pulse_at=now)
        assert alerts_look(now=now)
        now += step
    return now
