"""GPU hours of runs whose right changed while they held their GPUs: each hour keeps the right by which it was held."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import pytest
from django.conf import LazySettings

from portal.jobs.models import Allocation, TaskAttempt
from portal.jobs.services.allocation import job_demote, job_promote, task_attempt_release
from portal.jobs.services.placement import Leaf, Placed
from portal.usage.models import UsageDay
from portal.usage.selectors.gpu_hours import usage_of_days
from portal.usage.selectors.open_days import usage_of_open_days
from portal.usage.services.rollup import usage_open_days_keep, usage_roll
from tests.support.cluster.usage_runs import at, rolled_from, run
from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db

HOUR = 3_600_000
DAY = date(2026, 5, 4)
Hours = tuple[float, float]
"""Inside the quota, and on loan."""


@pytest.fixture
def row(world: World) -> TaskAttempt:
    """Two GPUs that are held inside the quota since ten o'clock."""
    world.node("gpu01", gpus=8)
    return run(world, "05-04 10:00", None, gpus=2)


def demote(row: TaskAttempt, now: datetime) -> None:
    cause = "the quota of vision has changed"
    job_demote(job=row.job_attempt.job, task_attempts=[row.pk], cause=cause, by=None, now=now)


def promote(row: TaskAttempt, now: datetime) -> None:
    held = Allocation.objects.filter(task_attempt=row).order_by("leaf")
    leaves = tuple(Leaf(one.leaf_id, f"vision/{one.leaf_id}", "guaranteed") for one in held)
    placed = Placed(row.task_id, "worker", 0, row.node_id, row.cpu_milli, row.memory_mb, leaves)
    job_promote(job=row.job_attempt.job, placed=[placed], now=now)


def hours(now: str, day: date = DAY) -> Hours:
    found = usage_of_days(first=day, last=day, now=at(now))
    return (
        sum(one.guaranteed_ms for one in found.values()) / HOUR,
        sum(one.opportunistic_ms for one in found.values()) / HOUR,
    )


@pytest.mark.parametrize("apart", [timedelta(), timedelta(microseconds=1), timedelta(milliseconds=400)])
def test_a_demotion_that_is_taken_back_at_once_leaves_the_hours_inside_the_quota(
    row: TaskAttempt, apart: timedelta
) -> None:
    noon = at("05-04 12:00")
    demote(row, noon)
    promote(row, noon + apart)
    guaranteed, on_loan = hours("05-04 13:00")
    assert (round(guaranteed, 2), round(on_loan, 2)) == (6, 0)
    task_attempt_release(row=row, now=at("05-04 14:00"))
    guaranteed, on_loan = hours("06-01 00:00")
    assert (round(guaranteed, 2), round(on_loan, 2)) == (8, 0)


def test_each_of_many_changes_counts_from_its_moment_on(row: TaskAttempt) -> None:
    demote(row, at("05-04 11:00"))
    assert hours("05-04 11:30") == (2, 1)
    promote(row, at("05-04 12:00"))
    assert hours("05-04 13:00") == (4, 2)
    demote(row, at("05-04 14:00"))
    promote(row, at("05-04 22:00"))
    demote(row, at("05-05 01:00"))
    assert hours("05-05 02:00") == (2 + 4 + 4, 2 + 16)
    assert hours("05-05 02:00", date(2026, 5, 5)) == (2, 2)


def test_a_change_after_the_moment_of_a_report_changes_nothing_before_it(row: TaskAttempt) -> None:
    demote(row, at("05-04 13:00"))
    promote(row, at("05-04 14:00"))
    assert hours("05-04 12:00") == (4, 0)


def test_what_a_worker_works_out_each_minute_and_sums_up_keeps_the_rights(
    row: TaskAttempt, settings: LazySettings
) -> None:
    settings.USAGE_KEPT_S = 120
    rolled_from("05-04")
    demote(row, at("05-04 12:00"))
    promote(row, at("05-04 12:00"))
    for minute in range(3):
        now = at(f"05-04 12:3{minute}")
        usage_open_days_keep(now=now)
        usage_open_days_keep(now=now)
        _, sums = usage_of_open_days(first=DAY, last=DAY, now=now)
        assert [(one.guaranteed_ms, one.opportunistic_ms) for one in sums.values()] == [
            (5 * HOUR + minute * 120_000, 0)
        ]
    task_attempt_release(row=row, now=at("05-04 14:00"))
    assert [usage_roll(now=at("05-05 12:00")) for _ in range(2)] == [1, 0]
    assert UsageDay.objects.values_list("guaranteed_ms", "opportunistic_ms").get() == (8 * HOUR, 0)
