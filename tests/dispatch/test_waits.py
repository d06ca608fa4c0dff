"""Reasons are stored when they change and else once a minute, and never all in one cycle."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from portal.jobs.models import Job
from portal.jobs.services import Told, waits_due
from portal.jobs.services.waits import LEAST_STALE, MOST_CHANGED
from tests.support.world import World

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def told(code: str, seconds_ago: float) -> Told:
    return Told(code, NOW - timedelta(seconds=seconds_ago))


def test_a_reason_is_due_when_its_code_changes_or_a_minute_has_passed() -> None:
    codes = {1: "quota", 2: "quota", 3: "quota", 4: "order", 5: "order"}
    before = {1: told("quota", 59), 2: told("quota", 61), 3: told("order", 1), 4: Told("", None)}
    assert waits_due(codes=codes, told=before, now=NOW) == {2, 3, 4}, "5 does not wait any more"


def test_of_very_many_new_reasons_the_first_of_the_queue_are_due_first() -> None:
    jobs = range(3 * MOST_CHANGED)
    due = waits_due(codes=dict.fromkeys(jobs, "order"), told=dict.fromkeys(jobs, Told("", None)), now=NOW)
    assert due == set(range(MOST_CHANGED))


def test_of_many_old_reasons_a_part_is_due_in_each_cycle_the_oldest_first() -> None:
    before = {job: told("order", 61 + job) for job in range(10 * LEAST_STALE)}
    due = waits_due(codes=dict.fromkeys(before, "order"), told=before, now=NOW)
    assert due == set(range(9 * LEAST_STALE, 10 * LEAST_STALE))


@pytest.mark.django_db
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
