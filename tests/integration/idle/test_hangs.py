"""A training that seems to hang is told of on its page, in its events, to its owner and as an alert, and not ended."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from nodes.protocol.messages import Steps
from portal.alerts.every import alerts_all
from portal.idle.hangs import LEARNED, MINUTE
from portal.idle.models import StepWatch
from portal.jobs.models import Job, JobEvent, TaskAttempt
from portal.metrics.record import Records
from portal.notices.states import OF_JOB_EVENTS, JobNotice
from tests.support.cluster.idle_scenes import Scene
from tests.support.cluster.usage_runs import fold, folded_from, minute_of, tell
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db


@pytest.fixture
def begun(scene: Scene) -> datetime:
    begun = minute_of(timezone.now()) - 14 * MINUTE
    TaskAttempt.objects.update(created_at=begun - timedelta(hours=1), started_at=begun - timedelta(hours=1))
    folded_from(begun)
    return begun


def minute(scene: Scene, at: datetime, step: int, *, log_end: int = 10, **readings: int | None) -> None:
    """A minute in which the training's GPUs were busy."""
    node = scene.world.nodes["gpu01"]
    for key, container in node.containers.items():
        told = Steps(step=step, at_ms=0, step_ms=400)
        node.containers[key] = replace(container, steps=told, log_end=log_end)
    tell(node, at + timedelta(seconds=30), 100, **{"power_w": 300, **readings})


def hung(scene: Scene, begun: datetime, records: Records, *, counts: bool = True) -> None:
    """``counts``: its GPUs count their multiprocessors at work."""
    usual, stuck = (70, 18) if counts else (None, None)
    for number in range(LEARNED):
        minute(scene, begun + number * MINUTE, 100 + number, sm_active=usual)
    for number in range(LEARNED, LEARNED + 5):
        minute(scene, begun + number * MINUTE, 100 + LEARNED - 1, power_w=90, sm_active=stuck)
    fold(records, begun + (LEARNED + 6) * MINUTE)


def test_a_hang_is_told_and_so_is_its_end(scene: Scene, begun: datetime, tmp_path: Path) -> None:
    records, browser = Records(tmp_path), Browser(scene.world.user)
    hung(scene, begun, records)
    job = Job.objects.get()
    (event,) = JobEvent.objects.filter(code="hang_suspected")
    assert str(event.message) == (
        "Task worker/0 seems to hang at step 104: no step and no output for 5 minutes, though one takes 0.4 s; its "
        "GPUs were busy, but drew 360 W instead of 1200 W, with 18 % instead of 70 % of their multiprocessors at work. "
        "Nothing is done about it: look at it, or stop it."
    )
    assert OF_JOB_EVENTS[event.code] == (JobNotice.WARNED,)
    assert "worker/0 seems to hang at step 104" in browser.get(f"/jobs/{job.pk}").text
    (alert,) = [one for one in alerts_all(now=timezone.now()) if one.code == "job_hangs"]
    assert (alert.name, alert.vcs) == (job.label, (job.vc.name,))
    assert "drew 360 W instead of 1200 W" in alert.message
    minute(scene, begun + (LEARNED + 5) * MINUTE, 105)
    fold(records, begun + (LEARNED + 7) * MINUTE)
    assert [one.code for one in JobEvent.objects.filter(code__startswith="hang")] == ["hang_suspected", "hang_over"]
    assert "seems to hang" not in browser.get(f"/jobs/{job.pk}").text
    assert not [one for one in alerts_all(now=timezone.now()) if one.code == "job_hangs"]


def test_what_ended_is_watched_no_more(scene: Scene, begun: datetime, tmp_path: Path) -> None:
    records = Records(tmp_path)
    hung(scene, begun, records, counts=False)
    assert StepWatch.objects.get().hangs
    TaskAttempt.objects.update(released_at=timezone.now())
    fold(records, begun + (LEARNED + 7) * MINUTE)
    assert not StepWatch.objects.exists()
    assert JobEvent.objects.filter(code__startswith="hang").count() == 1
