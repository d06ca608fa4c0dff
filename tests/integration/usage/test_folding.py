"""From a node's reports to the record of its tasks: each minute once, whatever comes twice, late or never."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from django.utils import timezone

from nodes.protocol.messages import ContainerReport, GpuSample
from nodes.protocol.states import ContainerState
from portal.hardware.models import Node
from portal.jobs.models import TaskAttempt
from portal.logs.stream import streams_client
from portal.metrics.record import Records
from portal.metrics.tasks import fold as control_fold
from portal.scheduler.reports import report_take
from portal.usage.models import Measured, UsageProgress
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.usage_runs import fold, folded_from, gpus_of, minute_of, sample_of, started, tell
from tests.support.cluster.world import World
from tests.support.services.redis_server import RedisServer

pytestmark = pytest.mark.django_db

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


@pytest.fixture
def row(world: World) -> TaskAttempt:
    """A task with two GPUs on gpu01, placed some minutes ago."""
    world.node("gpu01", gpus=2)
    row = started(world, gpu=2)
    TaskAttempt.objects.update(created_at=minute_of(world.now) - 5 * MINUTE)
    row.refresh_from_db()
    return row


@pytest.fixture
def begun(world: World, row: TaskAttempt) -> datetime:
    """A minute of its run that is over and not folded yet."""
    begun = minute_of(timezone.now()) - 3 * MINUTE
    folded_from(begun)
    return begun


def sums() -> tuple[int, int, int] | None:
    found = Measured.objects.first()
    return (found.measured_ms, found.used_ms, found.idle_ms) if found else None


def test_a_minute_of_reports_becomes_points_and_sums(
    world: World, row: TaskAttempt, begun: datetime, records: Records
) -> None:
    node = world.nodes["gpu01"]
    for number in range(12):
        tell(node, begun + 5 * number * SECOND, 90 if number % 2 else 30, power_w=200 + number, sm_active=40,
             sm_occupancy=20, tensor_active=0, dram_active=30)  # fmt: skip
    assert fold(records, begun + 2 * MINUTE) == 1
    points = records.read(str(row.pk))
    assert [point.at - int(begun.timestamp()) for point in points] == [0, 10, 20, 30, 40, 50]
    cpu, memory, step, step_time, *gpus = points[0].bands
    assert (step, step_time) == (None, None)
    assert (cpu, memory) == ((500, 500, 500), (700, 700, 700))
    activity = [(40, 40, 40), (20, 20, 20), (0, 0, 0), (30, 30, 30), None]
    of_one = [(60.0, 30, 90), (4000, 4000, 4000), (200.5, 200, 201), (60, 60, 60), *activity]
    assert gpus == 2 * of_one
    assert sums() == (120_000, 72_000, 0), "two GPUs for a minute, at 60 %"


def test_a_gpu_that_does_next_to_nothing_is_idle(
    world: World, row: TaskAttempt, begun: datetime, records: Records
) -> None:
    for number in range(12):
        tell(world.nodes["gpu01"], begun + 5 * number * SECOND, 2)
    fold(records, begun + 2 * MINUTE)
    assert sums() == (120_000, 2_400, 120_000)


def test_a_gpu_that_does_not_tell_its_utilisation_is_neither_used_nor_idle(
    world: World, row: TaskAttempt, begun: datetime, records: Records
) -> None:
    tell(world.nodes["gpu01"], begun, None)
    fold(records, begun + 2 * MINUTE)
    assert sums() is None
    assert records.read(str(row.pk))[0].bands[4:6] == [None, (4000, 4000, 4000)]


def test_a_reading_that_two_reports_carry_counts_once(
    world: World, row: TaskAttempt, begun: datetime, records: Records
) -> None:
    for utilisation in (80, 80):
        tell(world.nodes["gpu01"], begun, utilisation)
    fold(records, begun + 2 * MINUTE)
    assert records.read(str(row.pk))[0].read == 1
    assert sums() == (20_000, 16_000, 0)


def test_a_minute_that_is_folded_again_changes_nothing(
    world: World, row: TaskAttempt, begun: datetime, records: Records
) -> None:
    tell(world.nodes["gpu01"], begun, 80)
    fold(records, begun + 2 * MINUTE)
    before = records.read(str(row.pk)), sums()
    assert fold(records, begun + 2 * MINUTE) == 0
    assert (records.read(str(row.pk)), sums()) == before


def test_a_fold_that_was_killed_before_its_sums_is_taken_up_again(
    world: World, row: TaskAttempt, begun: datetime, records: Records
) -> None:
    tell(world.nodes["gpu01"], begun, 80)
    fold(records, begun + 2 * MINUTE)
    Measured.objects.all().delete()
    folded_from(begun)
    fold(records, begun + 2 * MINUTE)
    assert len(records.read(str(row.pk))) == 1
    assert sums() == (20_000, 16_000, 0)


def test_a_minute_waits_until_late_reports_have_come(
    world: World, row: TaskAttempt, begun: datetime, records: Records
) -> None:
    tell(world.nodes["gpu01"], begun, 80)
    assert fold(records, begun + MINUTE + 39 * SECOND) == 0
    assert fold(records, begun + MINUTE + 40 * SECOND) == 1


def test_a_redis_that_comes_back_empty_costs_only_what_it_held(
    world: World, row: TaskAttempt, begun: datetime, records: Records, redis_server: RedisServer
) -> None:
    node = world.nodes["gpu01"]
    tell(node, begun, 80)
    redis_server.restart_empty()
    tell(node, begun + MINUTE, 80)
    assert fold(records, begun + 3 * MINUTE) == 2
    assert [point.at for point in records.read(str(row.pk))] == [int((begun + MINUTE).timestamp())]
    assert sums() == (20_000, 16_000, 0)


def test_hours_without_anybody_to_fold_are_left_out(
    world: World, row: TaskAttempt, begun: datetime, records: Records
) -> None:
    folded_from(begun - timedelta(days=3))
    tell(world.nodes["gpu01"], begun, 80)
    assert 1 < fold(records, begun + 2 * MINUTE) <= 22
    assert UsageProgress.objects.get().folded_to == begun + MINUTE
    assert sums() == (20_000, 16_000, 0)


def claims(thief: ScriptedNode, row: TaskAttempt, moment: datetime) -> None:
    """A node reports another's task as its own, with the other's GPUs, which do nothing."""
    for key in (str(row.pk), str(uuid4()), "no id"):
        thief.containers[key] = ContainerReport(
            attempt=key, state=ContainerState.RUNNING, spec_hash="", generation=0, gpus=gpus_of(str(row.pk))
        )
    gpus = tuple(GpuSample(uuid=uuid, utilisation=0, memory_used_mb=0) for uuid in gpus_of(str(row.pk)))
    text = thief.report_text(sample=replace(sample_of(thief, moment, 0), gpus=gpus))
    assert report_take(text=text, now=moment)


def test_what_a_node_tells_of_others_tasks_counts_for_nobody(
    world: World, row: TaskAttempt, begun: datetime, records: Records
) -> None:
    claims(world.node("gpu02", gpus=1), row, begun)
    fold(records, begun + 2 * MINUTE)
    assert sums() is None
    assert records.read(str(row.pk)) == []


@pytest.mark.parametrize("name", ["gpu00", "gpu02"])
def test_what_it_tells_beside_what_the_tasks_own_node_tells_counts_for_nobody(
    world: World, row: TaskAttempt, begun: datetime, records: Records, name: str
) -> None:
    tell(world.nodes["gpu01"], begun, 80)
    claims(world.node(name, gpus=1), row, begun + 10 * SECOND)
    fold(records, begun + 2 * MINUTE)
    assert sums() == (20_000, 16_000, 0)


def test_readings_that_cannot_be_are_cut_to_what_can(
    world: World, row: TaskAttempt, begun: datetime, records: Records
) -> None:
    tell(world.nodes["gpu01"], begun, 10**30, power_w=-5)
    fold(records, begun + 2 * MINUTE)
    assert sums() == (20_000, 20_000, 0)
    assert records.read(str(row.pk))[0].bands[6] == (0, 0, 0)


def test_time_before_the_placement_and_after_the_end_is_not_counted(
    world: World, row: TaskAttempt, begun: datetime, records: Records
) -> None:
    TaskAttempt.objects.update(created_at=begun + 4 * SECOND, released_at=begun + 33 * SECOND)
    for number in range(12):
        tell(world.nodes["gpu01"], begun + 5 * number * SECOND, 50)
    fold(records, begun + 2 * MINUTE)
    assert sums() == (58_000, 29_000, 0)
    assert records.read(str(row.pk))[0].read == 1, "a reading from before is of whoever held the GPUs before"


def test_a_clock_that_is_wrong_puts_readings_at_the_portals_time(
    world: World, row: TaskAttempt, begun: datetime, records: Records
) -> None:

    Node.objects.filter(name="gpu01").update(clock_skew_ms=600_000)
    tell(world.nodes["gpu01"], begun + 10 * MINUTE, 80)
    Node.objects.update(last_report_at=begun)
    fold(records, begun + 2 * MINUTE)
    assert [point.at for point in records.read(str(row.pk))] == [int(begun.timestamp())]


def test_a_nodes_clock_that_jumps_ahead_costs_no_reading(
    world: World, row: TaskAttempt, begun: datetime, records: Records
) -> None:
    node = world.nodes["gpu01"]
    for number in range(4):
        moment = begun + 5 * number * SECOND
        ahead = 60 * MINUTE if number == 1 else timedelta()
        containers = tuple(replace(one, gpus=gpus_of(key)) for key, one in node.containers.items())
        text = node.report_text(containers=containers, sample=sample_of(node, moment + ahead, 80))
        assert report_take(text=text, now=moment)
        Node.objects.update(clock_skew_ms=0)
    fold(records, begun + 2 * MINUTE)
    assert [point.read for point in records.read(str(row.pk))] == [2, 2]


def test_minutes_that_a_clock_of_the_portal_that_was_ahead_has_folded_are_folded_from_now_on(
    world: World, row: TaskAttempt, begun: datetime, records: Records
) -> None:
    folded_from(begun + timedelta(hours=8))
    assert fold(records, begun) == 0
    tell(world.nodes["gpu01"], begun, 80)
    assert fold(records, begun + 2 * MINUTE) == 1
    assert sums() == (20_000, 16_000, 0)


def test_who_listens_to_the_same_redis_meanwhile_keeps_the_connection(begun: datetime) -> None:
    with streams_client().pubsub(ignore_subscribe_messages=True) as listener:  # type: ignore[no-untyped-call]
        listener.subscribe("folded")
        control_fold()
        streams_client().publish("folded", b"still here")
        deadline = time.monotonic() + 10
        while (message := listener.get_message(timeout=1)) is None:
            assert time.monotonic() < deadline
    assert message["data"] == b"still here"


def test_a_record_that_cannot_be_written_keeps_no_other_task_and_no_sum_back(
    world: World, records: Records, caplog: pytest.LogCaptureFixture
) -> None:
    node, begun = world.node("gpu01", gpus=2), minute_of(timezone.now()) - 3 * MINUTE
    bad, good = started(world), started(world)
    TaskAttempt.objects.update(created_at=begun - 5 * MINUTE)
    folded_from(begun)
    for number in range(12):
        tell(node, begun + 5 * number * SECOND, 50)
    records.path(str(bad.pk)).mkdir(parents=True)  # a file that cannot be written, whoever writes
    assert fold(records, begun + 2 * MINUTE) == 1
    assert (len(records.read(str(good.pk))), UsageProgress.objects.get().folded_to) == (6, begun + MINUTE)
    assert set(Measured.objects.values_list("task_attempt_id", flat=True)) == {bad.pk, good.pk}
    assert str(bad.pk) in caplog.text


def test_where_no_record_can_be_written_the_minute_comes_again(
    world: World, row: TaskAttempt, begun: datetime, records: Records
) -> None:
    for number in range(12):
        tell(world.nodes["gpu01"], begun + 5 * number * SECOND, 50)
    records.folder.write_text("where the folder should be")
    with pytest.raises(NotADirectoryError):
        fold(records, begun + 2 * MINUTE)
    assert UsageProgress.objects.get().folded_to == begun
    records.folder.unlink()
    assert fold(records, begun + 2 * MINUTE) == 1
    assert len(records.read(str(row.pk))) == 6
