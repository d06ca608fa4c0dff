"""What guaranteed tasks took, hour by hour, and what the scheduler is shown of it."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.accounts.models import User
from portal.hardware.models import Node
from portal.jobs.models import Allocation, Job, TaskAttempt, Usage
from portal.jobs.selectors.usage import UsageReader
from portal.jobs.services.allocation import task_attempt_release
from portal.jobs.services.lost import node_tasks_lose
from scheduling import Demotion, Promotion
from tests.integration.scheduler.plans import carry_out, placements, read, running
from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db

Teams = dict[str, User]
BEGAN = datetime(2026, 5, 4, 10, 45, tzinfo=UTC)
MINUTE_MS = 60_000


def began(job: Job, moment: datetime = BEGAN) -> TaskAttempt:
    """As if the job of one task had been placed and had started then."""
    rows = TaskAttempt.objects.filter(task__job=job)
    rows.update(created_at=moment, started_at=moment)
    Allocation.objects.filter(task_attempt__task__job=job).update(since=moment)
    return rows.select_related("job_attempt__job").get()


def hour_of(moment: datetime) -> int:
    return int(moment.timestamp()) // 3600


def minutes(job: Job) -> dict[str, dict[int, int]]:
    """By resource: clock hour -> amount in minutes."""
    found: dict[str, dict[int, int]] = defaultdict(dict)
    for row in Usage.objects.filter(vc=job.vc, user=job.user):
        found[row.resource][row.hour % 24] = row.amount // MINUTE_MS
    return dict(found)


def test_a_task_is_charged_for_each_hour_that_it_held_its_share(world: World, teams: Teams) -> None:
    job = running(world, teams["alice"], {0: "gpu01/0 gpu01/1"})
    task_attempt_release(row=began(job), now=BEGAN + timedelta(hours=3, minutes=20))
    shares = {10: 15, 11: 60, 12: 60, 13: 60, 14: 5}
    assert minutes(job) == {
        "A100": {hour: 2 * count for hour, count in shares.items()},
        "cpu": {hour: 1000 * count for hour, count in shares.items()},
        "memory": {hour: 1024 * count for hour, count in shares.items()},
    }


def test_tasks_of_one_user_add_up_and_a_repeated_end_adds_nothing(world: World, teams: Teams) -> None:
    for leaf in ("gpu01/0", "gpu02/0"):
        row = began(running(world, teams["alice"], {0: leaf}, name=leaf.replace("/", "-")))
        for _ in range(2):
            task_attempt_release(row=row, now=BEGAN + timedelta(minutes=10))
    assert minutes(row.job_attempt.job)["A100"] == {10: 20}


def test_what_was_borrowed_is_not_charged_and_what_came_into_its_right_is_from_then_on(
    world: World, teams: Teams
) -> None:
    guest = running(world, teams["carol"], {0: "gpu01/0"}, borrowed=True, name="guest")
    late = running(world, teams["alice"], {0: "gpu02/0"}, borrowed=True, name="late")
    row = began(late)
    promotion = Promotion(str(late.pk), placements(late, {0: "gpu02/0"}))
    assert carry_out(read(), promotions=[promotion], now=BEGAN + timedelta(minutes=5)).promoted == 1
    for attempt in (began(guest), row):
        task_attempt_release(row=attempt, now=BEGAN + timedelta(minutes=12))
    assert minutes(guest) == {}
    assert minutes(late)["A100"] == {10: 7}


def test_what_loses_its_right_is_charged_until_then(world: World, teams: Teams) -> None:
    job = running(world, teams["alice"], {0: "gpu01/0"})
    row = began(job)
    assert carry_out(read(), demotions=[Demotion(str(job.pk), "quota")], now=BEGAN + timedelta(minutes=8)).demoted == 1
    task_attempt_release(row=row, now=BEGAN + timedelta(minutes=50))
    assert minutes(job)["A100"] == {10: 8}


def test_a_task_of_a_lost_node_is_charged_until_it_was_given_up(world: World, teams: Teams) -> None:
    job = running(world, teams["alice"], {0: "gpu01/0"})
    began(job)
    node_tasks_lose(node=Node.objects.get(name="gpu01"), now=BEGAN + timedelta(minutes=9))
    row = TaskAttempt.objects.select_related("job_attempt__job").get()
    task_attempt_release(row=row, now=BEGAN + timedelta(hours=5))
    assert minutes(job)["A100"] == {10: 9}


def test_a_start_that_a_nodes_clock_puts_before_the_placement_is_not_believed(world: World, teams: Teams) -> None:
    job = running(world, teams["alice"], {0: "gpu01/0"})
    row = began(job)
    row.started_at = BEGAN - timedelta(days=400)
    task_attempt_release(row=row, now=BEGAN + timedelta(minutes=3))
    assert minutes(job)["A100"] == {10: 3}


def test_the_scheduler_sees_past_use_folded_into_the_present_hour(world: World, teams: Teams) -> None:
    now = timezone.now()
    life = timedelta(hours=2)
    for hours_ago, amount in ((0, 1000), (2, 1000), (4, 1000), (2000, 10**9)):
        Usage.objects.create(
            vc=world.vc, user=teams["alice"], resource="A100", hour=hour_of(now) - hours_ago, amount=amount
        )
    (found,) = UsageReader().folded(now=now, half_life=life)
    assert (found.vc_id, found.user, found.resource, found.hour) == (world.vc.pk, "alice", "A100", hour_of(now))
    assert found.amount == 1000 + 500 + 250


def test_days_that_are_past_are_read_again_only_when_use_was_added_to_them(world: World, teams: Teams) -> None:
    now, life = timezone.now(), timedelta(days=7)
    long = began(running(world, teams["alice"], {0: "gpu01/0"}, name="long"), now - timedelta(days=5))
    short = began(running(world, teams["alice"], {0: "gpu02/0"}, name="short"), now - timedelta(minutes=90))

    reader = UsageReader()

    def read_with_queries() -> tuple[int, int]:
        with CaptureQueriesContext(connection) as queries:
            found = {one.resource: one.amount for one in reader.folded(now=now, half_life=life)}
        return len(queries), found.get("A100", 0) // MINUTE_MS

    assert read_with_queries()[1] == 0
    task_attempt_release(row=short, now=now)
    assert read_with_queries() == (3, 89)
    assert read_with_queries() == (2, 89)
    task_attempt_release(row=long, now=now)
    counted, minutes_now = read_with_queries()
    assert (counted, read_with_queries()) == (3, (2, minutes_now))
    assert 0.75 * 5 * 24 * 60 < minutes_now < 0.9 * 5 * 24 * 60, "five days, the first ones weigh less"


def test_the_snapshot_holds_it_under_the_teams_name(world: World, teams: Teams) -> None:
    now = timezone.now()
    Usage.objects.create(vc=world.vc, user=teams["alice"], resource="A100", hour=hour_of(now), amount=7)
    (row,) = read(now).snapshot.usage
    assert (row.vc, row.user, row.resource, row.hour_ms, row.amount) == (
        "vision", "alice", "A100", hour_of(now) * 3_600_000, 7,
    )  # fmt: skip
