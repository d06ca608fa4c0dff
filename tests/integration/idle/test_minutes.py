"""From a node's reports to the minutes that the idle policy judges by."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from portal.idle.minutes import activity_of
from portal.idle.models import GpuActivity
from portal.jobs.models import TaskAttempt
from portal.metrics.record import Records
from portal.usage.models import UsageProgress
from tests.support.cluster.idle_scenes import Scene
from tests.support.cluster.usage_runs import fold, folded_from, minute_of, tell

pytestmark = pytest.mark.django_db
MINUTE, SECONDS = timedelta(minutes=1), timedelta(seconds=10)


@pytest.fixture
def begun(scene: Scene) -> datetime:
    """The next minute to take in, of a task that began long ago."""
    begun = minute_of(timezone.now()) - 5 * MINUTE
    long_ago = begun - timedelta(hours=1)
    TaskAttempt.objects.update(created_at=long_ago, started_at=long_ago)
    folded_from(begun)
    return begun


def told(scene: Scene, minute: datetime, utilisation: int) -> None:
    for number in range(6):
        tell(scene.world.nodes["gpu01"], minute + number * SECONDS, utilisation)


def idle_minutes(percent: int = 5) -> int:
    return activity_of(GpuActivity.objects.get()).below(percent).minutes


def test_minutes_of_reports_become_idle_minutes_each_once(scene: Scene, begun: datetime, tmp_path: Path) -> None:
    records = Records(tmp_path)
    for number, utilisation in enumerate([80, 2, 2]):
        told(scene, begun + number * MINUTE, utilisation)
    fold(records, begun + 4 * MINUTE)
    assert idle_minutes() == 2
    UsageProgress.objects.update(folded_to=begun + 2 * MINUTE)
    fold(records, begun + 4 * MINUTE)
    assert idle_minutes() == 2, "killed before it was noted, a minute is taken in again"


def test_a_minute_without_reports_is_not_idle(scene: Scene, begun: datetime, tmp_path: Path) -> None:
    told(scene, begun, 0)
    told(scene, begun + 2 * MINUTE, 0)
    fold(Records(tmp_path), begun + 4 * MINUTE)
    assert idle_minutes() == 2


def test_the_first_minutes_of_a_task_count_as_work(scene: Scene, begun: datetime, tmp_path: Path) -> None:
    TaskAttempt.objects.update(started_at=begun - 9 * MINUTE)
    for number in range(3):
        told(scene, begun + number * MINUTE, 0)
    fold(Records(tmp_path), begun + 4 * MINUTE)
    assert idle_minutes() == 2


def test_a_job_of_several_tasks_is_idle_when_none_of_them_works(scene: Scene, begun: datetime, tmp_path: Path) -> None:
    scene.run(name="pair", instances=2)
    TaskAttempt.objects.update(created_at=begun - timedelta(hours=1), started_at=begun - timedelta(hours=1))
    told(scene, begun, 0)
    quiet = TaskAttempt.objects.filter(task__job__name="pair").first()
    assert quiet is not None
    scene.world.nodes["gpu01"].containers.pop(str(quiet.pk))
    told(scene, begun + MINUTE, 0)
    fold(Records(tmp_path), begun + 3 * MINUTE)
    pair = GpuActivity.objects.get(job_attempt__job__name="pair")
    assert activity_of(pair).below(5).minutes == 1, "of the second minute one task told nothing"
