"""What happened goes in, decisions come out, and the whole state is plain data."""

import gc
from dataclasses import replace

import pytest

from scheduling import (
    Claim,
    Demotion,
    Engine,
    LeafUse,
    NodeState,
    PlacementConflict,
    Plan,
    Preempt,
    Running,
    RunningTask,
    Snapshot,
    Standing,
    Start,
    TaskPlacement,
    TaskRef,
    UnknownJob,
    Usage,
)
from tests.unit.scheduling.builders import (
    a_claim,
    carry_out,
    cluster,
    engine,
    job,
    node,
    nodes_of,
    role,
    running,
    wait_of,
)

ONE = cluster(node("a"), vision=4)


def a_start(name: str, leaf: str, number: int) -> Start:
    use = LeafUse(leaf, f"vision/A100/{number}", Standing.GUARANTEED)
    return Start(job(name), (TaskPlacement(TaskRef("worker", 0), "a", (use,), 1000, 1024),), 0)


def test_planning_changes_nothing() -> None:
    made = engine(ONE, job("j"))
    before = made.snapshot()
    made.plan(0)
    made.decide(job("other"), 0)
    made.explain("j", 0)
    assert made.snapshot() == before


def test_a_started_job_no_longer_waits() -> None:
    made = running(ONE, job("j"))
    state = made.snapshot()
    assert state.waiting == ()
    assert [one.job.id for one in state.running] == ["j"]
    with pytest.raises(UnknownJob):
        made.explain("j", 0)


def test_a_gpu_cannot_be_started_on_twice() -> None:
    made = engine(ONE)
    made.start(a_start("first", "a:0", 0))
    before = made.snapshot()
    with pytest.raises(PlacementConflict) as conflict:
        made.start(a_start("second", "a:0", 1))
    assert conflict.value.cell == "a:0"
    assert made.snapshot() == before


def test_a_virtual_cell_cannot_be_filled_twice() -> None:
    made = engine(ONE)
    made.start(a_start("first", "a:0", 0))
    with pytest.raises(PlacementConflict) as conflict:
        made.start(a_start("second", "a:1", 0))
    assert conflict.value.cell == "vision/A100/0"


def test_what_one_gives_up_and_another_claims_in_one_plan_is_claimed() -> None:
    """A start that releases claims is carried out after the preemption that made new ones there."""
    made = engine(ONE, job("early"), job("takes"), job("starts"))
    made.claim(a_claim("a:0", "early"))
    taken, start = a_start("takes", "a:0", 0), a_start("starts", "a:1", 1)._replace(releases=("a:0",))
    preempt = Preempt(taken.job, taken.placements, (), 0)
    made.carry_out(Plan(0, starts=(start,), preemptions=(preempt,), releases=("a:0",)))
    assert [(one.leaf, one.claimant) for one in made.snapshot().claims] == [("a:0", "takes")]


def test_a_task_cannot_be_started_twice() -> None:
    made = engine(cluster(node("c", 0), vision=0), job("j", role(gpus=0, sku=None)))
    (start,) = carry_out(made).starts
    with pytest.raises(PlacementConflict) as conflict:
        made.start(start)
    assert conflict.value.cell == "j/worker/0"


def test_a_start_that_conflicts_half_way_leaves_nothing_behind() -> None:
    made = engine(ONE)
    made.start(a_start("first", "a:1", 0))
    good, bad = a_start("x", "a:0", 1).placements[0], a_start("x", "a:1", 2).placements[0]
    with pytest.raises(PlacementConflict):
        made.start(Start(job("x", role(count=2)), (good, bad._replace(task=TaskRef("worker", 1))), 0))
    made.start(a_start("y", "a:0", 1))


def test_finishing_some_tasks_gives_only_their_gpus_back() -> None:
    made = running(ONE, job("j", role(count=4)))
    made.finish("j", [TaskRef("worker", 1), TaskRef("worker", 2)])
    assert made.plan(0).starts == ()
    made.submit(job("next", role(gpus=2)))
    assert nodes_of(made.plan(0).starts[0]) == {"a": 1}


def test_a_job_whose_last_task_ended_is_unknown() -> None:
    made = running(ONE, job("j"))
    made.finish("j", [TaskRef("worker", 0)])
    with pytest.raises(UnknownJob):
        made.finish("j")


def test_a_waiting_job_can_be_withdrawn() -> None:
    made = engine(ONE, job("j"))
    made.finish("j")
    assert made.plan(0).starts == ()


def test_a_node_that_goes_down_takes_nothing_and_keeps_what_runs() -> None:
    made = running(ONE, job("j"))
    made.set_node(node("a", state=NodeState.DOWN))
    made.submit(job("next"))
    assert wait_of(made.plan(0), "next").reason.code == "bad_nodes"
    assert [one.job.id for one in made.snapshot().running] == ["j"]
    made.set_node(node("a"))
    assert [start.job.id for start in made.plan(0).starts] == ["next"]


def test_a_new_node_is_used_at_once() -> None:
    made = running(cluster(node("a"), vision=4, speech=0), job("holder"))
    made.submit(job("j", role(gpus=4), priority=-1, vc="speech"))
    made.set_node(node("b"))
    assert nodes_of(made.plan(0).starts[0]) == {"b": 1}


def test_jobs_on_a_node_that_is_taken_away_can_still_end() -> None:
    two = cluster(node("a"), node("b"), vision=4)
    made = running(two, job("j", role(gpus=2), only=("b",)))
    made.reconfigure(ONE)
    made.submit(job("all", role(gpus=4)))
    assert [start.job.id for start in carry_out(made).starts] == ["all"]
    made.finish("j")
    assert [one.job.id for one in made.snapshot().running] == ["all"]


def test_where_hardware_is_gone_the_rest_is_used_and_the_others_are_told() -> None:
    promised = cluster(node("a"), node("b"), vision=8)
    made = Engine(replace(promised, nodes=(node("a"),), quotas_may_exceed=True))
    for name in "xy":
        made.submit(job(name, role(gpus=4), order=ord(name)))
    plan = carry_out(made)
    assert [start.job.id for start in plan.starts] == ["x"]
    assert wait_of(plan, "y").reason.sentence == "it needs 4 A100 on one node; no GPU of this kind is free"
    made.set_node(node("b"))
    assert [start.job.id for start in made.plan(0).starts] == ["y"]


def test_a_claimed_gpu_is_kept_for_its_claimant() -> None:
    made = engine(cluster(node("a", 1), vision=1), job("other", at=1), job("claimant", at=2))
    made.claim(a_claim("a:0"))
    plan = carry_out(made)
    assert [start.job.id for start in plan.starts] == ["claimant"]
    assert wait_of(plan, "other").reason.code == "quota"
    assert made.snapshot().claims == ()


def test_a_claimed_gpu_is_free_again_when_the_claim_is_released() -> None:
    made = engine(cluster(node("a", 1), vision=1), job("other"))
    made.claim(a_claim("a:0"))
    made.release("a:0")
    assert [start.job.id for start in made.plan(0).starts] == ["other"]


def test_nobody_else_can_be_started_on_a_claimed_gpu() -> None:
    made = engine(ONE)
    made.claim(a_claim("a:0"))
    with pytest.raises(PlacementConflict):
        made.start(a_start("other", "a:0", 0))


def test_a_claim_names_no_victim_once_it_is_gone() -> None:
    made = running(ONE, job("victim", role(gpus=4)))
    made.claim(a_claim("a:0", victim="victim"))
    made.finish("victim")
    assert made.snapshot().claims == (a_claim("a:0"),)


def test_the_claims_of_a_job_that_is_over_are_gone() -> None:
    made = engine(ONE, job("claimant"))
    made.claim(a_claim("a:0"))
    made.finish("claimant")
    assert made.snapshot().claims == ()


def test_a_snapshot_comes_back_as_it_went_in() -> None:
    placement = TaskPlacement(
        TaskRef("worker", 0), "a", (LeafUse("a:2", "vision/A100/1", Standing.GUARANTEED),), 1000, 1024
    )
    state = Snapshot(
        ONE,
        running=(Running(job("r")._replace(wanted=()), (RunningTask(placement, 5, 7),)),),
        waiting=(job("w1"), job("w2", priority=100)),
        claims=(a_claim("a:3", "w2", "r"),),
        demotions=(Demotion("r", "w2"),),
        usage=(Usage("vision", "alice", "A100", 0, 3_600_000),),
    )
    assert Engine.restore(state).snapshot() == state


def test_a_snapshot_in_which_two_tasks_hold_one_gpu_is_refused() -> None:
    tasks = [RunningTask(a_start(name, "a:0", number).placements[0], 0) for number, name in enumerate("xy")]
    state = Snapshot(ONE, running=tuple(Running(job(name), (task,)) for name, task in zip("xy", tasks, strict=True)))
    with pytest.raises(PlacementConflict):
        Engine.restore(state)


def test_a_pass_leaves_the_collector_of_garbage_as_it_was() -> None:
    made = engine(cluster(node("n1", 1), vision=1), job("a"))
    assert gc.isenabled()
    made.plan(0)
    assert gc.isenabled()
    gc.disable()
    try:
        made.advance(0)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_job_whose_own_task_leaves_for_it_keeps_the_cell_that_it_claimed() -> None:
    made = engine(ONE)
    mine = job("mine", role(count=2), gang=False)
    lent = TaskPlacement(TaskRef("worker", 0), "a", (LeafUse("a:0", None, Standing.BORROWED),), 1000, 1024)
    made.start(Start(mine._replace(wanted=(TaskRef("worker", 0),)), (lent,), 0))
    made.submit(mine._replace(wanted=(TaskRef("worker", 1),)))
    made.claim(Claim("a:0", "mine", "mine", "vision/A100/0", TaskRef("worker", 1)))
    made.finish("mine", [TaskRef("worker", 0)])
    with pytest.raises(PlacementConflict) as conflict:
        made.start(a_start("other", "a:1", 0))
    assert conflict.value.cell == "vision/A100/0"
    (start,) = made.plan(1).starts
    assert [(use.leaf, use.virtual_cell) for use in start.placements[0].leaves] == [("a:0", "vision/A100/0")]
