"""GPU hours by hand: days and their borders, rights that changed, loss, and what members may see."""

from __future__ import annotations

from dataclasses import fields
from datetime import date, timedelta
from typing import Any

import pytest
from django.core.management import call_command

from portal.jobs.models import Allocation, TaskAttempt
from portal.usage.models import Measured, UsageDay, UsageProgress
from portal.usage.selectors.gpu_hours import UsageSums, usage_of_days
from portal.usage.services.rollup import usage_roll
from tests.support.cluster.usage_runs import at, rolled_from, run
from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db

HOUR = 3_600_000


@pytest.fixture
def world(db: None) -> World:
    world = World()
    world.node("gpu01", gpus=8)
    return world


def hours(first: str, last: str, now: str) -> dict[str, UsageSums]:
    """By day."""
    days = [at(f"{day} 00:00").date() for day in (first, last)]
    found = usage_of_days(first=days[0], last=days[1], now=at(now))
    return {key.day.strftime("%m-%d"): sums for key, sums in found.items()}


def turned(row: TaskAttempt, moment: str, **columns: str) -> None:
    """Since this moment the GPUs of a run that is over were held by another right than before."""
    turn = at(moment)
    Allocation.objects.filter(task_attempt=row).update(since=turn, turns=f" {turn.isoformat()}", **columns)


def test_gpus_are_counted_on_each_day_on_which_they_were_held(world: World) -> None:
    run(world, "05-03 22:00", "05-05 06:30", gpus=2)
    assert hours("05-01", "05-31", "06-01 00:00") == {
        "05-03": UsageSums(guaranteed_ms=4 * HOUR),
        "05-04": UsageSums(guaranteed_ms=48 * HOUR),
        "05-05": UsageSums(guaranteed_ms=13 * HOUR),
    }


def test_of_a_run_that_began_before_the_first_day_only_what_lies_in_it_counts(world: World) -> None:
    run(world, "04-20 00:00", "05-02 01:00")
    assert hours("05-02", "05-03", "06-01 00:00") == {"05-02": UsageSums(guaranteed_ms=HOUR)}


def test_a_run_that_ended_at_midnight_held_nothing_on_the_next_day(world: World) -> None:
    run(world, "05-03 23:00", "05-04 00:00")
    assert hours("05-04", "05-04", "06-01 00:00") == {}


def test_a_running_task_counts_until_now(world: World) -> None:
    run(world, "05-04 10:00", None, gpus=3)
    assert hours("05-04", "05-05", "05-04 10:30") == {"05-04": UsageSums(guaranteed_ms=3 * HOUR // 2)}


def test_what_was_borrowed_until_it_came_into_its_right_is_told_apart(world: World) -> None:
    row = run(world, "05-04 10:00", "05-04 14:00")
    turned(row, "05-04 11:00", standing="guaranteed")
    guest = run(world, "05-04 20:00", "05-04 22:00", borrowed=True)
    assert guest.released_at
    expected = UsageSums(guaranteed_ms=3 * HOUR, opportunistic_ms=3 * HOUR)
    assert hours("05-04", "05-04", "06-01 00:00") == {"05-04": expected}


def test_gpus_of_a_lost_node_are_nobodys_until_it_is_back(world: World) -> None:
    row = run(world, "05-04 10:00", "05-06 10:00", lost_at=at("05-04 12:00"), stop_reason="lost")
    turned(row, "05-04 12:00", standing="borrowed", virtual_cell="")
    expected = {"05-04": UsageSums(guaranteed_ms=2 * HOUR, wasted_ms=2 * HOUR)}
    assert hours("05-04", "05-06", "06-01 00:00") == expected


LOST: dict[str, tuple[dict[str, Any], int]] = {
    "all of its work, without a checkpoint": ({"stop_reason": "preempted"}, 4),
    "work since the last checkpoint": ({"stop_reason": "preempted", "checkpoint_at": at("05-04 13:00")}, 1),
    "nothing, before it ran": ({"stop_reason": "preempted", "started_at": None}, 0),
    "with its gang": ({"stop_reason": "sibling", "attempt": {"end_reason": "node_lost"}}, 4),
    "drained": ({"stop_reason": "drained"}, 4),
    "nothing, stopped by a person": ({"stop_reason": "user"}, 0),
    "nothing, its sibling failed": ({"stop_reason": "sibling", "attempt": {"end_reason": "failed"}}, 0),
    "nothing, it had succeeded": ({"stop_reason": "preempted", "cause": "exited", "exit_code": 0}, 0),
}


@pytest.mark.parametrize("case", LOST)
def test_what_is_lost_when_gpus_are_taken_away(world: World, case: str) -> None:
    columns, lost = LOST[case]
    run(world, "05-04 10:00", "05-04 14:00", gpus=2, **columns)
    (sums,) = hours("05-04", "05-04", "06-01 00:00").values()
    assert sums.wasted_ms == 2 * lost * HOUR


def test_a_loss_counts_on_the_day_on_which_it_happened(world: World) -> None:
    run(world, "05-04 22:00", "05-05 03:00", stop_reason="preempted")
    found = hours("05-04", "05-05", "06-01 00:00")
    assert [found[day].wasted_ms for day in ("05-04", "05-05")] == [0, 5 * HOUR]


def test_days_are_summed_up_once_they_are_over_and_add_up_to_the_same(world: World) -> None:
    row = run(world, "05-03 22:00", "05-05 06:30", gpus=2)
    Measured.objects.create(
        task_attempt=row, day=date(2026, 5, 4), measured_ms=40 * HOUR, used_ms=30 * HOUR, idle_ms=HOUR
    )
    rolled_from("05-03")
    before = usage_of_days(first=date(2026, 5, 1), last=date(2026, 5, 31), now=at("05-06 12:00"))
    assert usage_roll(now=at("05-05 00:10")) == 1, "yesterday is not settled yet"
    assert usage_roll(now=at("05-06 12:00")) == 2
    assert usage_roll(now=at("05-06 12:00")) == 0
    columns = [one.name for one in fields(UsageSums)]
    kept = {
        (one.day, one.vc_id, one.user_id, one.sku_id): UsageSums(*(getattr(one, name) for name in columns))
        for one in UsageDay.objects.all()
    }
    assert kept == {tuple(key): sums for key, sums in before.items()}


def test_a_day_waits_until_its_readings_are_folded(world: World) -> None:
    run(world, "05-03 22:00", "05-03 23:00")
    rolled_from("05-03")
    UsageProgress.objects.update(folded_to=at("05-03 23:59"))
    assert usage_roll(now=at("05-04 12:00")) == 0
    UsageProgress.objects.update(folded_to=at("05-04 00:00"))
    assert usage_roll(now=at("05-04 12:00")) == 1


def test_a_clock_that_was_ahead_for_a_while_closes_no_day(world: World) -> None:
    run(world, "05-03 10:00", None)
    rolled_from("05-03")
    assert usage_roll(now=at("05-05 02:00")) == 2
    run(world, "05-03 19:00", "05-03 23:00", gpus=2)
    usage_roll(now=at("05-03 18:00"))
    assert UsageProgress.objects.get().rolled_to == date(2026, 5, 3)
    assert not UsageDay.objects.exists()
    usage_roll(now=at("05-05 12:00"))
    assert list(UsageDay.objects.order_by("day").values_list("day", "guaranteed_ms")) == [
        (date(2026, 5, 3), 22 * HOUR), (date(2026, 5, 4), 24 * HOUR),
    ]  # fmt: skip


def test_a_day_is_summed_up_from_the_first_allocation_on(world: World) -> None:
    run(world, "05-03 22:00", "05-03 23:00")
    now = at("05-05 12:00")
    usage_roll(now=now)
    assert UsageProgress.objects.get().rolled_to == date(2026, 5, 5)
    assert UsageDay.objects.count() == 1


def test_summing_up_again_changes_nothing_and_mends_what_was_spoilt(world: World) -> None:
    run(world, "05-03 22:00", "05-05 06:30", gpus=2)
    rolled_from("05-03")
    usage_roll(now=at("05-06 12:00"))
    wanted = list(UsageDay.objects.order_by("day").values_list("day", "guaranteed_ms"))
    UsageDay.objects.filter(day=date(2026, 5, 4)).update(guaranteed_ms=1)
    call_command("usage_rebuild", "2026-05-01", "2026-05-31")
    assert list(UsageDay.objects.order_by("day").values_list("day", "guaranteed_ms")) == wanted
    assert UsageProgress.objects.get().rolled_to == date(2026, 5, 6)


def test_many_days_are_caught_up_a_month_at_a_time(world: World) -> None:
    run(world, "05-03 22:00", "05-03 23:00")
    rolled_from("05-01")
    now = at("05-01 00:00") + timedelta(days=40, hours=1)
    assert [usage_roll(now=now) for _ in range(3)] == [31, 9, 0]
