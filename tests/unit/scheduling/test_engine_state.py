"""After every event of random worlds: the state is right, a restored engine goes on alike, nothing goes round."""

from dataclasses import replace
from functools import partial
from random import Random
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings

from scheduling import Borrow, Engine, Plan, Snapshot
from tests.unit.scheduling.builders import cluster, engine, job, node, role, running
from tests.unit.scheduling.cellworlds import ANY, World, worlds
from tests.unit.scheduling.engine_state import check_amounts, check_told, state_of
from tests.unit.scheduling.playing import Player

Row = TypeVar("Row")


def watch(follower: Engine, made: Engine, carried_out: Plan) -> None:
    """What must hold of an engine that has just carried a plan out, its victims still in place. `follower` is one that
    learns of everything from snapshots, as a tick does."""
    now, state = carried_out.at_ms, made.snapshot()
    check_amounts(state)
    again = Engine.restore(state)
    assert again.snapshot() == state
    assert state_of(again) == state_of(made)
    before = state_of(made)
    plan = made.plan(now)
    assert state_of(made) == before
    assert again.plan(now) == plan
    assert Engine.restore(shuffled(state, Random(now))).plan(now) == plan
    follower.follow(replace(shuffled(state, Random(now)), cluster=state.cluster))
    assert (follower.snapshot(), state_of(follower)) == (state, before)
    assert follower.plan(now) == plan
    check_told(made, plan)
    assert again.advance(now) == replace(plan, waits=())


def shuffled(state: Snapshot, chance: Random) -> Snapshot:
    """The same rows in another order."""

    def mixed(rows: tuple[Row, ...]) -> tuple[Row, ...]:
        return tuple(chance.sample(rows, len(rows)))

    nodes, teams = mixed(state.cluster.nodes), mixed(state.cluster.virtual_clusters)
    return replace(
        state,
        cluster=replace(state.cluster, nodes=nodes, virtual_clusters=teams),
        running=mixed(state.running),
        waiting=mixed(state.waiting),
        claims=mixed(state.claims),
        demotions=mixed(state.demotions),
        usage=mixed(state.usage),
    )


def check_world(world: World) -> None:
    made = Engine(world.cluster)
    run = Player(made, world.lasts, partial(watch, Engine(world.cluster))).play(world.arrivals)
    state = made.snapshot()
    assert (state.running, state.claims) == ((), ())
    assert state_of(made) == state_of(Engine(world.cluster))
    wanting = {one.id for one in state.waiting}
    assert {one.id for _, one in world.arrivals} - run.ended.keys() == wanting
    assert all(not role.gpus for one in state.waiting for role in one.roles)


@settings(max_examples=40)
@given(worlds(ANY))
def test_state_restoring_order_of_rows_and_reasons_hold_after_every_event_and_all_cells_merge_again(
    world: World,
) -> None:
    check_world(world)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@settings(max_examples=3_000, suppress_health_check=list(HealthCheck))
@given(worlds(replace(ANY, most=20)))
def test_the_same_holds_in_thousands_of_worlds(world: World) -> None:
    check_world(world)


def test_a_loan_that_the_reserve_of_idle_gpus_forbids_is_asked_for_again_when_fewer_idle() -> None:
    made = running(cluster(node("a", 4, cpu=16, keep_memory=0), vision=4))
    made.submit(job("cpu", role(gpus=0, cpu=8, sku=None), priority=-1))
    assert made.advance(0).starts == ()
    made.submit(job("gpus", role(gpus=4, cpu=4)))
    assert [start.job.id for start in made.advance(1).starts] == ["gpus", "cpu"]


def test_cpu_of_a_demoted_task_is_taken_back_as_of_any_borrower() -> None:
    described = cluster(node("a", 2, cpu=8), vision=1, speech=1)
    made = running(described, job("high", role(gpus=1, cpu=6, memory=1), vc="speech"))
    smaller = cluster(node("a", 2, cpu=8), vision=1, speech=0)
    made.reconfigure(smaller)
    made.advance(0)
    made.submit(job("mine", role(gpus=1, cpu=4)))
    (preempt,) = made.plan(1).preemptions
    assert [victim.job for victim in preempt.victims] == ["high"]


def test_a_task_without_gpus_is_not_started_on_cpu_that_the_same_plan_takes_back() -> None:
    made = running(cluster(node("a", 2, cpu=8, keep_memory=0), vision=2), job("lent", role(gpus=2, cpu=4), priority=-1))
    made.submit(job("cpu", role(gpus=0, cpu=4, sku=None), at=1))
    made.submit(job("gpus", role(gpus=2, cpu=8), at=2))
    plan = made.advance(5)
    assert [one.job.id for one in plan.preemptions] == ["gpus"]
    assert plan.starts == ()


def test_a_job_moves_into_the_quota_that_a_demotion_of_the_same_plan_has_left() -> None:
    made = engine(cluster(node("a", 4), vision=2), job("lazy", role(count=2), priority=1, lazy=True))
    made.advance(0)
    made.submit(job("waits", priority=0, borrow=Borrow.AUTO, order=1))
    made.advance(1)
    made.submit(job("high", priority=9, order=2))
    plan = made.advance(2)
    assert [(start.job.id, start.demotes) for start in plan.starts] == [("high", ("lazy",))]
    assert [one.job for one in plan.promotions] == ["waits"]


def test_tasks_on_loan_that_are_told_to_leave_one_after_the_other_are_paid_for_once() -> None:
    made = running(cluster(node("a", 4), vision=4), job("lent", role(count=2, gpus=1), priority=-1))
    first, second = (task.placement.task for task in made.snapshot().running[0].tasks)
    assert state_of(made)["on_loan"]
    made.leave("lent", [first])
    made.leave("lent", [second])
    assert state_of(made)["on_loan"] == {}


def test_nobody_is_started_only_to_be_preempted_in_the_same_plan() -> None:
    made = running(cluster(node("a", 1), vision=1), job("lent", priority=-1, grace=10))
    made.submit(job("low", priority=1))
    made.carry_out(made.plan(0))
    made.finish("lent")
    made.submit(job("high", priority=9))
    plan = made.advance(5)
    assert [start.job.id for start in plan.starts] == ["high"]
    assert (plan.preemptions, made.snapshot().claims) == ((), ())
