"""Doomed cells: quota that would have to lie on bad hardware if it were wanted now, and that a reason says so."""

import pytest
from hypothesis import given, settings

from scheduling import Code, Engine, Job, NodeState, Plan, Snapshot, Standing
from tests.hived.binding import Bindings, doomed_among
from tests.unit.scheduling.builders import cluster, engine, job, node, role, running, wait_of
from tests.unit.scheduling.cellworlds import ANY, World, damaged, worlds
from tests.unit.scheduling.playing import Player

DOWN = NodeState.DOWN
HOUR = 3_600_000


def doomed_of(made: Engine) -> list[tuple[str, int]]:
    return [(one.vc, one.cells) for one in made.doomed()]


def test_a_cell_is_doomed_when_its_team_alone_could_not_be_served() -> None:
    made = engine(cluster(node("a", 2), node("b", 2), vision=2, speech=2))
    assert doomed_of(made) == []
    made.set_node(node("b", 2, state=DOWN))
    assert doomed_of(made) == []
    made.submit(job("first", role(gpus=2)))
    made.advance(0)
    assert doomed_of(made) == [("speech", 2)]
    made.finish("first")
    assert doomed_of(made) == []


def test_a_faulty_gpu_dooms_one_cell_and_a_cordoned_node_none() -> None:
    assert doomed_of(engine(cluster(node("a", 2, sick=(1,)), vision=2))) == [("vision", 1)]
    assert doomed_of(engine(cluster(node("a", 2, state=NodeState.CORDONED), vision=2))) == []


def test_cells_in_use_are_not_doomed_whatever_becomes_of_their_node() -> None:
    made = running(cluster(node("a", 2), vision=2), job("runs", role(gpus=2)))
    made.set_node(node("a", 2, state=DOWN))
    assert made.doomed() == ()


def test_who_waits_for_doomed_cells_is_told_so() -> None:
    described = cluster(node("gpu01", 2, state=DOWN), vision=2)
    reason = wait_of(engine(described, job("j", role(gpus=2))).plan(0), "j").reason
    assert (reason.numbers["doomed"], reason.numbers["doomed_type"]) == (2, "A100")
    assert reason.sentence.endswith("gpu01 (down); because of that, 2 A100 of team vision's quota cannot be had")


# The hardware that is left goes by priority


@pytest.mark.parametrize(
    ("low", "needs", "leave"),
    [
        ((1, 1, 1), 1, ["low0"]),
        ((1, 1, 1), 2, ["low0", "low1"]),
        ((1, 1), 2, ["low0"]),
        ((2, 1), 1, ["low1"]),
        ((2, 1), 2, ["low0"]),
        ((3,), 1, ["low0"]),
    ],
)
def test_beside_a_faulty_gpu_a_higher_priority_takes_the_place_of_as_few_lower_ones(
    low: tuple[int, ...], needs: int, leave: list[str]
) -> None:
    """What is free of the quota could only lie on the faulty GPU."""
    jobs = [job(f"low{number}", role(gpus=gpus), priority=1, order=number) for number, gpus in enumerate(low)]
    made = running(cluster(node("a", sick=(1,)), node("b", 2, sick=(0, 1)), vision=6), *jobs)
    made.submit(job("high", role(gpus=needs), priority=2, order=9))
    plan = made.plan(HOUR)
    assert sorted(victim.job for one in plan.preemptions for victim in one.victims) == leave
    made.carry_out(plan)
    for name in leave:
        made.finish(name)
    assert [one.job.id for one in made.plan(HOUR).starts] == ["high"]


def test_beside_a_faulty_gpu_an_equal_priority_waits_for_it() -> None:
    made = running(cluster(node("a", 2, sick=(1,)), vision=2), job("first"))
    made.submit(job("second", order=1))
    assert wait_of(made.plan(0), "second").reason.code == Code.BAD_NODES


def test_where_a_node_is_down_the_dearest_of_the_lower_priorities_stay() -> None:
    jobs = [job(f"low{number}", priority=priority, order=number) for number, priority in enumerate((3, 2, 3, 1))]
    made = running(cluster(node("a", 4), node("b", 2, state=DOWN), vision=6), *jobs)
    made.submit(job("high", role(gpus=2), priority=9, order=9))
    (preemption,) = made.plan(0).preemptions
    assert [victim.job for victim in preemption.victims] == ["low1", "low3"]


def in_its_place(state: Snapshot, waits: Job) -> list[str]:
    """Jobs of lower priority of the same team that have GPUs in service inside the quota."""
    served = {
        leaf.id for one in state.cluster.nodes if one.state is NodeState.OPEN for leaf in one.leaves if leaf.healthy
    }
    return [
        one.job.id
        for one in state.running
        if (one.job.vc, one.job.opportunistic, one.job.preemptible) == (waits.vc, False, True)
        and one.job.priority < waits.priority
        and any(
            use.standing is Standing.GUARANTEED
            and use.leaf in served
            and state.cluster.leaf_types[use.leaf] == waits.roles[0].sku
            for task in one.tasks
            for use in task.placement.leaves
        )
    ]


def nobody_lower_stays(made: Engine, done: Plan) -> None:
    """Whoever needs one GPU has the place of a lower priority, whatever hardware is bad."""
    plan, state = made.plan(done.at_ms), made.snapshot()
    for wait in plan.waits if not plan.answers and not done.answers else ():
        one = wait.job.roles[0]
        if len(wait.job.roles) == 1 and (one.count, one.gpus, one.pinned_cell) == (1, 1, None):
            assert wait.reason.code != Code.BAD_NODES or in_its_place(state, wait.job) == []


@settings(max_examples=40)
@given(worlds(ANY, damaged()))
def test_nobody_waits_for_bad_hardware_while_a_lower_priority_runs_on_good(world: World) -> None:
    Player(Engine(world.cluster), world.lasts, nobody_lower_stays).play(world.arrivals)


def watch(made: Engine, plan: Plan) -> None:
    assert made.doomed() == doomed_among(Bindings.of(made.snapshot()))


@settings(max_examples=30)
@given(worlds(ANY, damaged()))
def test_the_engine_and_the_bindings_of_its_snapshot_tell_the_same_doomed_cells(world: World) -> None:
    Player(Engine(world.cluster), world.lasts, watch).play(world.arrivals)
