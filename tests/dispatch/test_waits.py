"""Reasons are stored when they change and else once a minute, and never all in one cycle."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from portal.jobs.models import Job
from portal.jobs.services import waits_due
from portal.jobs.services.waits import MOST_CHANGED
from tests.support.world import World

NOW = datetime(2030, 1, 1, tzinfo=UTC)

pytestmark = pytest.mark.django_db


def waiting(world: World, count: int, code: str, *, seconds_ago: float) -> list[int]:
    """Waiting jobs that were told this reason so long ago, each a second before the one before it."""
    jobs = [world.submit(name=f"job-{number}").pk for number in range(count)]
    for place, job in enumerate(jobs):
        at = NOW - timedelta(seconds=seconds_ago + place)
        Job.objects.filter(pk=job).update(waiting_code=code, waiting_written_at=at)
    return jobs


def test_a_reason_is_due_when_its_code_changes_or_a_minute_has_passed(world: World) -> None:
    world.node("gpu01", gpus=1)
    fresh, *_, old = waiting(world, 3, "quota", seconds_ago=58.5)
    (other,) = waiting(world, 1, "order", seconds_ago=1)
    codes = dict.fromkeys((fresh, old, other), "quota") | {9999: "quota"}
    told = {fresh: "quota", old: "quota", other: "order"}
    assert waits_due(codes=codes, told=told, now=NOW) == {old, other}, "9999 does not wait any more"


def test_of_very_many_new_reasons_the_first_of_the_queue_are_due_first() -> None:
    jobs = range(3 * MOST_CHANGED)
    due = waits_due(codes=dict.fromkeys(jobs, "order"), told=dict.fromkeys(jobs, ""), now=NOW)
    assert due == set(range(MOST_CHANGED))


def test_of_many_old_reasons_the_oldest_are_due_first(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portal.jobs.services.waits.LEAST_STALE", 2)
    world.node("gpu01", gpus=1)
    jobs = waiting(world, 5, "order", seconds_ago=61)
    codes = dict.fromkeys(jobs, "order")
    assert waits_due(codes=codes, told=codes, now=NOW) == set(jobs[-2:])


def test_a_reason_that_says_the_same_after_a_minute_is_news_to_nobody(world: World) -> None:
    world.node("gpu01", gpus=1)
    world.submit(name="first")
    job = world.submit(name="second")
    world.settle()
    before = Job.objects.get(pk=job.pk)
    assert before.waiting_written_at is not None
    later = before.waiting_written_at + timedelta(seconds=61)
    assert world.cycle(now=later).applied.reasons == 0
    after = Job.objects.get(pk=job.pk)
    assert (after.waiting_message, after.waiting_written_at) == (before.waiting_message, later)
