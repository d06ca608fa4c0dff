"""Start estimates: made on a worker, shown, stored, and scored against what happened."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from berth.cli.job_page import start_lines
from portal.forecast.estimates import run_times, scores, starts_estimate
from portal.forecast.models import StartEstimate
from portal.jobs.models import Job, JobAttempt, TaskAttempt
from portal.jobs.services.stop import job_stop
from portal.jobs.states import EndReason, JobState
from portal.queue.outlook import Endless, Score, starts_read
from portal.queue.selectors.queue import job_forecast
from portal.queue.wait_translations import no_start_words
from scheduling import all_tasks
from scheduling.model.job import Job as EngineJob
from scheduling.model.job import Role
from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def busy(world: World, limit: str = "1h", extras: dict[str, Any] | None = None) -> Job:
    """A node of one GPU on which a job with a time limit runs."""
    world.node("gpu01", gpus=1)
    berth = {"timeLimit": limit} if limit else {}
    job = world.submit(name="first", extras={"gangAllocation": True, "berth": berth, **(extras or {})})
    world.settle()
    return job


def ran(
    world: World, count: int, lasted: timedelta, reason: EndReason = EndReason.SUCCEEDED, **changes: object
) -> None:
    """Past runs of a job of the user, of one GPU unless the changes say otherwise."""
    end = timezone.now() - HOUR
    job = world.submit(name="past", **changes)
    Job.objects.filter(pk=job.pk).update(state=JobState.SUCCEEDED)
    for number in range(count):
        JobAttempt.objects.create(
            job=job, number=number + 1, state="ended", created_at=end - lasted, started_at=end - lasted, ended_at=end,
            end_reason=reason,
        )  # fmt: skip


def estimate(world: World, now: datetime | None = None) -> int:
    return starts_estimate(now=now or timezone.now(), seconds=60)


def test_a_waiting_job_is_told_when_it_starts_by_the_limit_of_the_one_that_runs(world: World) -> None:
    busy(world)
    waiting = world.submit()
    world.cycle()
    now = timezone.now()
    assert estimate(world, now) == 1
    forecast = job_forecast(job=Job.objects.get(pk=waiting.pk))
    assert forecast is not None
    assert forecast.start is not None
    assert now < forecast.start.p50_at < forecast.start.p90_at <= now + HOUR
    assert forecast.score is None, "nothing has come true yet"
    row = StartEstimate.objects.get()
    assert (row.job_id, row.p90_at, row.started_at) == (waiting.pk, forecast.start.p90_at, None)


def test_past_runs_of_the_user_tell_as_well(world: World) -> None:
    busy(world, limit="")
    ran(world, 20, timedelta(minutes=10))
    waiting = world.submit()
    world.cycle()
    started = JobAttempt.objects.get(job__name="first").started_at
    assert started is not None
    assert estimate(world) == 1
    start = starts_read().ranges[waiting.pk]
    assert abs(start.p50_at - (started + timedelta(minutes=10))) < timedelta(seconds=1)


@pytest.mark.parametrize("reason", [EndReason.PREEMPTED, EndReason.NODE_LOST, EndReason.DRAINED])
def test_runs_that_the_cluster_cut_short_are_not_compared_with(world: World, reason: EndReason) -> None:
    world.node("gpu01")
    ran(world, 20, timedelta(minutes=10), reason)
    roles = (Role("worker", 1, 1, 1000, 1024),)
    like = EngineJob("x", "vision", "alice", 10, roles, 0, 0, all_tasks(roles))
    assert run_times().of(like, 0, 0.5) is None
    ran(world, 20, timedelta(minutes=7))
    assert run_times().of(like, 0, 0.5) == 7 * 60_000


def test_past_runs_of_elastic_jobs_are_compared_by_the_size_of_their_gang(world: World) -> None:
    world.node("gpu01")
    berth = {"elastic": {"worker": {"min": 1, "max": 4}}}
    ran(world, 20, timedelta(minutes=10), extras={"gangAllocation": True, "berth": berth})
    ran(world, 20, timedelta(minutes=20), instances=4)
    roles = (Role("worker", 1, 1, 1000, 1024),)
    like = EngineJob("x", "vision", "alice", 10, roles, 0, 0, all_tasks(roles))
    assert run_times().of(like, 0, 0.9) == 10 * 60_000


def test_without_limits_and_with_too_few_runs_there_is_no_estimate_yet(world: World) -> None:
    busy(world, limit="")
    ran(world, 19, timedelta(minutes=10))
    waiting = world.submit()
    world.cycle()
    assert estimate(world) == 0
    forecast = job_forecast(job=Job.objects.get(pk=waiting.pk))
    assert forecast is not None
    assert forecast.start is None
    assert not StartEstimate.objects.exists()
    assert no_start_words(forecast=forecast, vc="vision", code="quota") == (
        "No estimate of its start: alice/first#1 has no time limit, and fewer than 20 past runs tell how long it may "
        "take."
    )
    others = replace(forecast, endless=Endless([waiting.pk, waiting.pk - 1], 4))
    assert "a job of alice in vision, a job of alice in vision and 2 more have" in no_start_words(
        forecast=others, vc="speech", code="fragmented"
    )
    assert "out of service" in no_start_words(forecast=forecast, vc="vision", code="bad_nodes")
    assert no_start_words(forecast=forecast, vc="vision", code="preempting") == "", "the reason itself says when"
    assert list(start_lines(None, None, "")) == [], "nor does the command say that nobody knows"


def test_an_estimate_that_says_the_same_again_is_no_new_one(world: World) -> None:
    busy(world)
    world.submit()
    world.cycle()
    now = timezone.now()
    estimate(world, now)
    estimate(world, now + timedelta(seconds=30))
    assert StartEstimate.objects.count() == 1
    TaskAttempt.objects.update(started_at=now - timedelta(minutes=40))
    estimate(world, now + timedelta(seconds=60))
    assert StartEstimate.objects.count() == 2


def test_an_estimate_is_scored_when_its_job_has_started(world: World) -> None:
    busy(world)
    waiting = world.submit()
    world.cycle()
    made = timezone.now() - timedelta(minutes=40)
    estimate(world, made)
    world.nodes["gpu01"].finish()
    world.settle()
    estimate(world)
    row = StartEstimate.objects.get()
    started = JobAttempt.objects.get(job=waiting).created_at
    assert row.started_at == started
    off = round(abs((started - row.p50_at).total_seconds()))
    hit = started <= row.p90_at + timedelta(seconds=10)
    assert scores() == {"": Score(1, int(hit), off), "vision": Score(1, int(hit), off)}


def test_a_start_after_the_later_time_is_a_miss(world: World) -> None:
    busy(world)
    waiting = world.submit()
    world.nodes["gpu01"].finish()
    world.settle()
    started = JobAttempt.objects.get(job=waiting).created_at
    for early in (HOUR, timedelta(seconds=5)):
        at = started - early
        StartEstimate.objects.create(job=waiting, made_at=started - 2 * HOUR, p50_at=at, p90_at=at)
    estimate(world)
    assert scores()[""] == Score(2, 1, round((3600 + 5) / 2)), "a few seconds are no miss"


def test_twenty_scored_estimates_make_a_score_that_is_shown(world: World) -> None:
    busy(world)
    waiting = world.submit()
    world.cycle()
    now = timezone.now()
    rows = [StartEstimate(job=waiting, made_at=now, p50_at=now, p90_at=now, started_at=now + HOUR) for _ in range(5)]
    rows += [StartEstimate(job=waiting, made_at=now, p50_at=now, p90_at=now, started_at=now) for _ in range(15)]
    StartEstimate.objects.bulk_create(rows)
    estimate(world)
    forecast = job_forecast(job=Job.objects.get(pk=waiting.pk))
    assert forecast is not None
    assert forecast.score == Score(20, 15, 0)
    assert forecast.score.percent == 75


def test_what_never_started_and_what_is_old_is_forgotten(world: World) -> None:
    busy(world)
    gone, old = world.submit(name="gone", berth={"timeLimit": "1h"}), world.submit(name="old")
    world.cycle()
    estimate(world)
    StartEstimate.objects.filter(job=old).update(made_at=timezone.now() - timedelta(days=31))
    job_stop(job=gone, actor=world.user, now=timezone.now())
    assert set(StartEstimate.objects.values_list("job__name", flat=True)) == {"gone", "old"}
    starts_estimate(now=timezone.now(), seconds=1e-6)
    assert not StartEstimate.objects.exists()


def test_when_the_time_is_over_there_is_no_estimate(world: World) -> None:
    busy(world)
    world.submit()
    world.cycle()
    assert starts_estimate(now=timezone.now(), seconds=1e-6) == 0
