"""Days that are not summed up: worked out once for all who read, and by whoever reads where nobody did."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.common.wake import redis_once
from portal.usage.selectors.open_days import KEY, usage_of_open_days
from portal.usage.services.rollup import usage_open_days_keep
from tests.support.cluster.usage_runs import at, rolled_from, run
from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db

HOUR = 3_600_000
DAY, NOON = date(2026, 5, 3), at("05-03 12:00")
MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def _running(world: World, settings: LazySettings) -> None:
    """Two GPUs are held since ten o'clock."""
    settings.USAGE_KEPT_S = 120
    world.node("gpu01", gpus=8)
    run(world, "05-03 10:00", None, gpus=2)
    rolled_from("05-03")


def held(now: Any, first: date = DAY, last: date = DAY) -> float:
    """GPU hours on these days."""
    _, sums = usage_of_open_days(first=first, last=last, now=now)
    return sum(one.guaranteed_ms for key, one in sums.items() if first <= key.day <= last) / HOUR


def test_what_a_worker_found_is_read_without_any_query() -> None:
    usage_open_days_keep(now=NOON)
    with CaptureQueriesContext(connection) as queries:
        assert held(NOON + MINUTE / 2) == 4
        assert held(NOON + MINUTE) == 4
    assert not queries.captured_queries


def test_the_next_minute_of_the_worker_is_seen_though_the_last_one_would_do() -> None:
    usage_open_days_keep(now=NOON)
    assert held(NOON + MINUTE / 2) == 4
    usage_open_days_keep(now=NOON + MINUTE)
    assert held(NOON + MINUTE) * 30 == 121, "two minutes of a GPU more"


def test_without_a_worker_it_is_worked_out_once_for_all_processes() -> None:
    assert held(NOON) == 4
    with CaptureQueriesContext(connection) as queries:
        assert held(NOON + MINUTE) == 4
    assert not queries.captured_queries
    assert held(NOON + 30 * MINUTE) == 5, "older than anybody may read"


@pytest.mark.parametrize("kept", [None, b"of another release"])
def test_what_is_gone_or_cannot_be_read_is_worked_out(kept: bytes | None) -> None:
    usage_open_days_keep(now=NOON - 30 * MINUTE)
    if kept is None:
        redis_once().delete(KEY)
    else:
        redis_once().set(KEY, kept)
    assert held(NOON) == 4


def test_another_day_than_those_that_were_found_is_worked_out() -> None:
    usage_open_days_keep(now=NOON)
    assert held(at("05-04 00:00") + MINUTE / 2, first=date(2026, 5, 4), last=date(2026, 5, 4)) * 60 == 1


def test_a_part_of_the_days_that_were_found_is_read(world: World) -> None:
    run(world, "05-02 22:00", "05-02 23:00")
    rolled_from("05-02")
    usage_open_days_keep(now=NOON)
    with CaptureQueriesContext(connection) as queries:
        assert held(NOON) == 4
        assert held(NOON, first=date(2026, 5, 2), last=date(2026, 5, 2)) == 1
    assert not queries.captured_queries


def test_nothing_is_kept_where_every_report_shall_be_new(settings: LazySettings) -> None:
    settings.USAGE_KEPT_S = 0
    usage_open_days_keep(now=NOON)
    assert held(NOON) == 4
    assert held(NOON + 30 * MINUTE) == 5
    assert redis_once().get(KEY) is None
