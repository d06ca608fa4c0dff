"""Reasons are stored when they change and else once a minute, and never all in one cycle."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import REGISTRY

from portal.jobs.models import Job
from portal.queue.outlook import queue_read
from portal.queue.services.waits import MOST_CHANGED, Told, waits_due
from portal.scheduler import cycle
from portal.scheduler.apply import Applied
from scheduling import Engine, Plan, Snapshot
from tests.support.cluster.world import World

NOW = datetime(2030, 1, 1, tzinfo=UTC)

pytestmark = pytest.mark.django_db


def told(count: int, code: str, *, seconds_ago: float, first: int = 0) -> dict[int, Told]:
    """Waiting jobs that were told this reason so long ago, each a second before the one before it."""
    at = int(NOW.timestamp() * 1000 - seconds_ago * 1000)
    return {first + number: Told(code, at - 1000 * number) for number in range(count)}


def test_a_reason_is_due_when_its_code_changes_or_a_minute_has_passed() -> None:
    known = told(3, "quota", seconds_ago=58.5) | told(1, "order", seconds_ago=1, first=3)
    codes = dict.fromkeys((0, 2, 3), "quota") | {9999: "quota"}
    assert waits_due(codes=codes, told=known, now=NOW) == {2, 3}, "9999 does not wait any more"


def test_a_reason_that_speaks_of_a_pause_is_due_when_that_is_over() -> None:
    paused = {job: Told("storage", int(NOW.timestamp() - 5) * 1000, NOW + timedelta(seconds=job)) for job in (-6, 0, 1)}
    assert waits_due(codes=dict.fromkeys(paused, "storage"), told=paused, now=NOW) == {0}


def test_of_very_many_new_reasons_the_first_of_the_queue_are_due_first() -> None:
    jobs = range(3 * MOST_CHANGED)
    due = waits_due(codes=dict.fromkeys(jobs, "order"), told=dict.fromkeys(jobs, Told("", None)), now=NOW)
    assert due == set(range(MOST_CHANGED))


def test_of_many_old_reasons_the_oldest_are_due_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portal.queue.services.waits.LEAST_STALE", 2)
    known = told(5, "order", seconds_ago=61)
    assert waits_due(codes=dict.fromkeys(known, "order"), told=known, now=NOW) == {3, 4}


def test_a_reason_is_stored_again_after_a_minute_and_not_before(world: World) -> None:
    world.node("gpu01", gpus=1)
    world.submit(name="first")
    job = world.submit(name="second")
    world.settle()
    told_at = Job.objects.get(pk=job.pk).waiting_written_at
    assert told_at is not None
    for seconds, again in ((59, False), (61, True)):
        later = told_at + timedelta(seconds=seconds)
        world.cycle(now=later)
        assert (Job.objects.get(pk=job.pk).waiting_written_at == later) is again


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


def test_where_many_wait_reasons_are_told_once_a_second_and_starts_are_not_kept_waiting(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cycle, "MANY_WAIT", 2)
    world.node("gpu01", gpus=1)
    world.settle()
    first, second = world.submit(name="first"), world.submit(name="second")
    monkeypatch.setattr(cycle, "TOLD_EVERY_S", 3600)
    assert world.cycle().applied == Applied(started=1)
    third = world.submit(name="third")
    assert world.cycle().applied == Applied()
    assert codes_of(first, second, third) == ["", "", ""]
    monkeypatch.setattr(cycle, "TOLD_EVERY_S", 0)
    assert world.cycle().applied.reasons == 2
    assert codes_of(first, second, third) == ["", "quota", "quota"]
    assert queue_read() == {second.pk: 1, third.pk: 2}


class Stumbling:
    """An engine that fails at the reasons, when it has lost who runs."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @classmethod
    def restore(cls, snapshot: Snapshot) -> Stumbling:
        return cls(Engine.restore(snapshot))

    def plan(self, now: int, *, with_reasons: bool = True) -> Plan:
        if with_reasons:
            for one in self.engine.snapshot().running:
                self.engine.finish(one.job.id)
            raise IndexError("no reason found")
        return self.engine.plan(now, with_reasons=with_reasons)


def test_where_a_reason_cannot_be_worked_out_jobs_start_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world.node("gpu01", gpus=2)
    first = world.submit(name="first")
    world.settle()
    second, third = world.submit(name="second"), world.submit(name="third")
    failed = REGISTRY.get_sample_value("berth_scheduler_untold_total") or 0
    with monkeypatch.context() as stumbling:
        stumbling.setattr(world, "scheduler", cycle.Scheduler())
        stumbling.setattr(cycle, "Engine", Stumbling)
        applied = world.cycle().applied
    assert applied == Applied(started=1), "on the GPU that is free, and on no other"
    assert codes_of(first, second, third) == ["", "", ""]
    assert "no reason found" in caplog.text
    assert REGISTRY.get_sample_value("berth_scheduler_untold_total") == failed + 1
    assert world.cycle().applied.reasons == 1
    assert codes_of(third) == ["quota"]


def codes_of(*jobs: Job) -> list[str]:
    return [Job.objects.get(pk=job.pk).waiting_code for job in jobs]
