"""Orders and reports lost, doubled, late and in any order: the rows end as if every message had come once, in time."""

from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodes.protocol.messages import Desired, Exit
from nodes.protocol.states import Cause, ContainerState, Phase
from portal.jobs.models import Allocation, Job, JobEvent, TaskAttempt
from portal.jobs.states import JOB_OVER
from portal.node_orders.services.desired import desired_build
from portal.scheduler.reports import report_take
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World
from tests.support.run.emptying import database_empty

pytestmark = pytest.mark.django_db(transaction=True)
CALM_ROUNDS = 15


class Wire:
    """A node with all that was ever sent from it and to it; each message may arrive any time, any number of times."""

    def __init__(self, node: ScriptedNode, code: int | None) -> None:
        self.node, self.code = node, code
        self.up: list[str] = []
        self.down: list[Desired] = []

    def order(self, which: int) -> None:
        self.down.append(desired_build(node=self.node.row))

    def take(self, which: int) -> None:
        """The node takes one of its lists, unless it has seen a newer one."""
        if not self.down or (desired := self.down[which % len(self.down)]).generation < self.node.generation:
            return
        self.node.generation = desired.generation
        for order in desired.orders:
            there = self.node.containers.get(order.attempt)
            if order.phase is Phase.REMOVE or there is None or there.state is not ContainerState.TERMINATED:
                self.node.carry_out(order)

    def report(self, which: int) -> None:
        self.up.append(self.node.report_text())

    def deliver(self, which: int) -> None:
        if self.up:
            report_take(text=self.up[which % len(self.up)], now=timezone.now())

    def end(self, which: int) -> None:
        """Its program ends by itself, if it is one that does."""
        for attempt, container in self.node.containers.items():
            if container.state is ContainerState.RUNNING and self.code is not None:
                exit_ = Exit(cause=Cause.EXITED, code=self.code)
                ended = replace(container, state=ContainerState.TERMINATED, exit=exit_, log_complete=True)
                self.node.containers[attempt] = ended

    def serve(self, which: int) -> None:
        """Everything once, in order."""
        for step in (self.order, self.take, self.report, self.deliver):
            step(NEWEST)


STEPS = ("cycle", "serve", "order", "take", "report", "deliver", "deliver", "end")
NEWEST = -1
which = st.one_of(st.just(NEWEST), st.integers(0, 50))
steps = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 1), which), min_size=25, max_size=70)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps, code=st.sampled_from([0, 3]))
def test_any_order_of_messages_ends_in_the_same_rows(db: None, steps: list[tuple[str, int, int]], code: int) -> None:
    try:
        world = World()
        nodes = [world.node("gpu01", gpus=1), world.node("gpu02", gpus=1)]
        wires = [Wire(nodes[0], code), Wire(nodes[1], 0 if code == 0 else None)]
        job = world.submit(instances=2)
        for name, node, which in steps:
            if name == "cycle":
                world.cycle()
            else:
                getattr(wires[node], name)(which)
        _calm_down(world, wires, job)
        _assert_as_if_undisturbed(job, code)
    finally:
        database_empty(connection)


def _calm_down(world: World, wires: list[Wire], job: Job) -> None:
    for _ in range(CALM_ROUNDS):
        world.cycle()
        for wire in wires:
            wire.serve(NEWEST)
        job.refresh_from_db()
        if job.state in JOB_OVER and not TaskAttempt.objects.filter(removed_at__isnull=True).exists():
            return
        wires[0].end(0)
        wires[1].end(0)


def _assert_as_if_undisturbed(job: Job, code: int) -> None:
    reason = "succeeded" if code == 0 else "failed"
    assert (job.state, job.end_reason, job.exit_code, job.retries) == (reason, reason, code, 0)
    assert list(job.attempts.values_list("number", "state", "end_reason")) == [(1, "ended", reason)]
    assert sorted(_columns(TaskAttempt.objects.filter(job_attempt__job=job))) == [
        ("gpu01", 1, "terminated", "remove", "exited", code),
        ("gpu02", 1, "terminated", "remove", *(("exited", 0) if code == 0 else ("stopped", 143))),
    ]
    assert not TaskAttempt.objects.filter(removed_at__isnull=True).exists()
    assert not Allocation.objects.filter(released_at__isnull=True).exists()
    codes = list(JobEvent.objects.filter(job=job).values_list("code", flat=True))
    for once in ("submitted", "placed", "attempt_ended", reason):
        assert codes.count(once) == 1, codes
    # A gang of which one task failed before the other was seen to start never ran as a whole.
    assert codes.count("attempt_running") == codes.count("running") in ((1,) if code == 0 else (0, 1)), codes
    for twice in ("task_prepared", "task_running"):
        assert codes.count(twice) <= 2, codes
    assert codes.count("task_terminated") == 2


def _columns(rows: Any) -> list[tuple[Any, ...]]:
    return list(rows.values_list("node__name", "number", "state", "phase", "cause", "exit_code"))
