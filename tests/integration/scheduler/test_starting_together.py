"""Many jobs that start in one cycle: together, and each as if it were alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nodes.protocol.messages import Exit
from nodes.protocol.names import node_queue
from nodes.protocol.states import Cause
from portal.common.wake import redis_once
from portal.job_file.model import JobSpec
from portal.jobs.models import Allocation, Job, TaskAttempt
from portal.jobs.services.start import ports_wanted
from portal.jobs.services.stop import job_stop
from tests.integration.scheduler.plans import carry_out, read, start
from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db


def jobs_of(world: World, count: int) -> list[Job]:
    return [world.submit(name=f"job-{number}") for number in range(count)]


def queries_to_start(jobs: list[Job], first: int) -> int:
    loaded = read()
    starts = [start(loaded, job, {0: f"gpu01/{first + place}"}) for place, job in enumerate(jobs)]
    with CaptureQueriesContext(connection) as captured:
        assert carry_out(loaded, starts=starts).started == len(jobs)
    return len(captured)


def test_many_starts_take_no_more_queries_than_few(world: World) -> None:
    world.node("gpu01", gpus=8)
    few = queries_to_start(jobs_of(world, 2), 0)
    assert queries_to_start(jobs_of(world, 6), 2) <= few


def test_of_jobs_that_start_together_one_that_was_stopped_since_is_left_out(world: World) -> None:
    world.node("gpu01", gpus=8)
    jobs = jobs_of(world, 5)
    loaded = read()
    job_stop(job=jobs[2], actor=world.user, now=timezone.now())
    starts = [start(loaded, job, {0: f"gpu01/{place}"}) for place, job in enumerate(jobs)]
    done = carry_out(loaded, starts=starts)
    assert (done.started, done.skipped) == (4, 1)
    states = [Job.objects.get(pk=job.pk).state for job in jobs]
    assert states == ["starting", "starting", "stopped", "starting", "starting"]
    assert sorted(Allocation.objects.values_list("leaf__index", flat=True)) == [0, 1, 3, 4]


def test_each_has_ports_of_its_own_and_its_own_history(world: World) -> None:
    world.node("gpu01", gpus=8)
    jobs = jobs_of(world, 3)
    queries_to_start(jobs, 0)
    ports = [port for row in TaskAttempt.objects.all() for held in row.ports.values() for port in held]
    assert len(ports) == len(set(ports)) == 6
    for job in jobs:
        told = [(one.code, one.message) for one in job.events.all()][-2:]
        assert told == [("starting", "Attempt 1 starts."), ("placed", "Attempt 1: 1 task placed on gpu01.")]


def test_a_port_that_was_in_use_is_not_given_out_again_at_once(world: World) -> None:
    """What listens there is not Berth's, so that only the attempt's end tells of it."""
    node = world.node("gpu01")
    job = world.submit()
    given: list[set[int]] = []
    for _ in range(3):
        world.cycle()
        (order,) = node.desired().orders
        given.append({port for held in TaskAttempt.objects.get(pk=order.attempt).ports.values() for port in held})
        node.end(order, Exit(cause=Cause.PORT_TAKEN, message=f"host port {min(given[-1])} is in use on this node"))
        node.report()
        world.obeyed()
        Job.objects.filter(pk=job.pk).update(not_before=None)
    assert not set.intersection(*given)


def test_ports_on_which_something_else_listens_are_given_out_last(world: World) -> None:
    node = world.node("gpu01", gpus=2)
    first, last = 21_000, 21_000 + 2 * len(ports_wanted(JobSpec.from_json(world.submit().spec), "worker", 0)) - 1
    busy = tuple(range(first, first + (last - first + 1) // 2))
    node.inventory = replace(node.inventory, port_first=first, port_last=last, ports_busy=busy)
    node.report()
    world.cycle()
    (given,) = ({port for held in row.ports.values() for port in held} for row in TaskAttempt.objects.all())
    assert given == {*range(first, last + 1)} - {*busy}
    world.submit()
    world.cycle()
    held = {port for row in TaskAttempt.objects.all() for ports in row.ports.values() for port in ports}
    assert held == {*range(first, last + 1)}, "they may have come free since"


def test_a_node_is_sent_its_list_once_however_many_transactions_of_a_cycle_change_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portal.scheduler.apply.TOGETHER", 1)
    world.node("gpu01", gpus=8)
    jobs = jobs_of(world, 3)
    sent = redis_once().llen(node_queue("gpu01"))
    queries_to_start(jobs, 0)
    assert redis_once().llen(node_queue("gpu01")) == sent + 1


def test_specs_are_read_where_they_are_sent_and_nowhere_else(world: World) -> None:
    node = world.node("gpu01", gpus=2)
    world.submit(instances=2)
    with CaptureQueriesContext(connection) as asked:
        world.cycle()
        node.obey()
        world.cycle()
    read = [query["sql"] for query in asked if query["sql"].startswith("SELECT") and "spec_sealed" in query["sql"]]
    assert read
    assert not [sql for sql in read if '"progress"' in sql], "whole rows: of a large job each is near a megabyte"


def test_a_task_that_is_placed_while_a_list_is_made_comes_with_the_next_one(world: World) -> None:
    node, jobs = world.node("gpu01", gpus=8), jobs_of(world, 2)
    late = [1]

    def place(number: int) -> None:
        loaded = read()
        assert carry_out(loaded, starts=[start(loaded, jobs[number], {0: f"gpu01/{number}"})]).started == 1

    def placing(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        """Just before the tasks of the list are read, after their specs were stored; its own list is not made yet."""
        if late and "ORDER BY" in sql and '"jobs_taskattempt"."spec_sealed"' in sql:
            place(number := late.pop())
            TaskAttempt.objects.filter(job_attempt__job=jobs[number]).update(spec_hash="", spec_sealed="")
        return execute(sql, params, many, context)

    place(0)
    with connection.execute_wrapper(placing):
        (first,) = node.desired().orders
    assert not late
    assert node.spec(first).attempt == first.attempt
    assert [node.spec(order).attempt == order.attempt for order in node.desired().orders] == [True, True]
