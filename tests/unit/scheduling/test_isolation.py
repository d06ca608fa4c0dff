"""Isolation: what a team's guaranteed jobs get follows from its own cells and guaranteed jobs alone, whatever extra
tasks of elastic jobs run beside them."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from scheduling import CellType, Cluster, Engine, Job, Preempt, QuotaLine, Start, TaskRef, UpperCell, VirtualCluster
from tests.unit.scheduling.builders import cluster, engine, job, node, role, running
from tests.unit.scheduling.cellworlds import ISOLATED, World, alone, gang_alone, worlds
from tests.unit.scheduling.playing import Began, Player, Run

RACKS = Cluster(
    tuple(node(name, 2, "A", shape="box", chain="A") for name in "abcd"),
    (VirtualCluster("vision", (QuotaLine("A", 3), QuotaLine("rack", 1))),),
    cell_types=(CellType("box", "A", 2, node_level=True), CellType("rack", "box", 2)),
    upper_cells=(UpperCell("r0", "rack", ("a", "b")), UpperCell("r1", "rack", ("c", "d"))),
)


def starts_of(run: Run, jobs: tuple[tuple[int, Job], ...]) -> list[Began]:
    """When and in which virtual cells the tasks of these jobs began; extra tasks have none."""
    names = {one.id: one for _, one in jobs}
    return sorted(one for one in run.starts if one.job in names and not names[one.job].is_extra(one.task))


def check_isolation(world: World) -> None:
    shared = Player(Engine(world.cluster), world.lasts).play(world.arrivals)
    for vc in world.cluster.virtual_clusters:
        mine = tuple(one for one in world.of(vc.id) if any(role.gpus for role in one[1].roles))
        gangs = tuple((at, gang_alone(one)) for at, one in mine)
        by_itself = Player(Engine(alone(world.cluster, vc.id)), world.lasts).play(gangs)
        assert starts_of(shared, mine) == starts_of(by_itself, mine)
        assert {one.id: shared.ended.get(one.id) for _, one in mine} == {
            one.id: by_itself.ended.get(one.id) for _, one in mine
        }


@settings(max_examples=60)
@given(worlds(ISOLATED))
def test_guaranteed_jobs_start_when_and_where_they_would_on_their_own_cells(world: World) -> None:
    check_isolation(world)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@settings(max_examples=5_000, suppress_health_check=list(HealthCheck))
@given(worlds(replace(ISOLATED, most=20)))
def test_guaranteed_jobs_start_as_on_their_own_cells_in_thousands_of_worlds(world: World) -> None:
    check_isolation(world)


def cells_of(answer: Start | Preempt) -> list[str]:
    return sorted(use.virtual_cell or "" for one in answer.placements for use in one.leaves)


def test_single_gpus_end_nobody_where_another_rack_is_left_for_who_owns_one() -> None:
    made = running(RACKS, job("lent", role(count=2, sku="A"), priority=-1), job("mine", role(count=3, sku="A")))
    assert {one.job.id for one in made.snapshot().running} == {"lent", "mine"}


def test_single_gpus_that_would_break_a_rack_owed_to_somebody_are_taken_back_from_borrowers() -> None:
    lent = [job(one, role(gpus=2, sku="A"), priority=-1)._replace(only_nodes=frozenset(one)) for one in "ac"]
    made = running(RACKS, *lent)
    made.submit(job("mine", role(count=3, sku="A")))
    (preempt,) = made.plan(0).preemptions
    assert [victim.job for victim in preempt.victims] == ["a"], "GPUs idle, but two in each rack"
    assert cells_of(preempt) == ["vision/A/0", "vision/A/1", "vision/A/2"]


QUADS = Cluster(
    (node("a", 8, shape="box"), node("b", 8, shape="box")),
    (VirtualCluster("vision", (QuotaLine("A100", 2), QuotaLine("pair", 1), QuotaLine("quad", 3))),),
    cell_types=(CellType("pair", "A100", 2), CellType("quad", "pair", 2), CellType("box", "quad", 2, node_level=True)),
)


def test_single_gpus_break_no_cell_that_is_owed_whichever_borrower_loses_least() -> None:
    made = running(
        QUADS,
        job("quad", role(gpus=4)),
        job("lent", role("wide", gpus=8), role("narrow", gpus=3), priority=-1, gang=False),
    )
    made.submit(job("mine", role(count=2)))
    (preempt,) = made.plan(0).preemptions
    assert cells_of(preempt) == ["vision/A100/0", "vision/A100/1"]


PAIRS = replace(
    cluster(node("a", shape="box"), node("b", shape="box"), vision={"box": 2}),
    cell_types=(CellType("pair", "A100", 2), CellType("box", "pair", 2, node_level=True)),
)


def test_a_task_of_a_job_that_is_no_gang_takes_the_virtual_cell_it_would_take_on_empty_hardware() -> None:
    made = running(PAIRS, job("mine", role(gpus=2)), job("lent", priority=-1))
    made.submit(job("more", role(gpus=2), gang=False))
    (preempt,) = made.plan(0).preemptions
    assert cells_of(preempt) == ["vision/box/0/2", "vision/box/0/3"]


def test_all_tasks_of_a_job_that_is_no_gang_take_their_cells_in_one_plan_before_anybody_later() -> None:
    made = running(
        cluster(node("a"), vision=3, speech=1), *(job(f"lent{n}", vc="speech", priority=-1) for n in range(3))
    )
    made.submit(job("mine", role(count=3), gang=False, order=1))
    made.submit(job("later", order=2))
    plan = made.plan(0)
    taken = [placement.task for one in plan.answers for placement in one.placements]
    assert sorted(taken) == [TaskRef("worker", index) for index in range(3)]
    assert {one.job.id for one in plan.answers} == {"mine"}
    assert [one.job.id for one in plan.preemptions] == ["mine"]


def test_each_task_starts_when_its_own_victim_is_gone() -> None:
    made = running(cluster(node("a", 2), vision=2), *(job(f"lent{n}", priority=-1, grace=10) for n in range(2)))
    made.submit(job("mine", role(count=2), gang=False))
    made.carry_out(made.plan(0))
    made.finish("lent0")
    assert [len(start.placements) for start in made.advance(5).starts] == [1]
    assert len(made.snapshot().claims) == 1
    made.finish("lent1")
    assert [len(start.placements) for start in made.advance(10).starts] == [1]
    assert made.snapshot().claims == ()


def test_nobody_passes_the_tasks_that_wait_behind_cells_that_are_being_taken() -> None:
    made = running(
        cluster(node("a", 2), node("b", 1), vision=2, speech=1),
        job("old", priority=20),
        *(job(f"lent{n}", vc="speech", priority=-1, grace=10) for n in range(2)),
    )
    made.submit(job("mine", role(count=2), gang=False, order=1))
    made.submit(job("later", order=2))
    made.carry_out(made.plan(0))
    made.finish("old")
    assert {start.job.id for start in made.plan(1).starts} <= {"mine"}


def test_who_takes_cells_is_charged_at_once_so_that_the_other_user_is_next() -> None:
    lent = (job(f"lent{n}", vc="speech", priority=-1, order=n) for n in range(2))
    made = running(cluster(node("a", 2), vision=2, speech=0), *lent)
    for number, user in enumerate(("alice", "alice", "bob")):
        made.submit(job(f"{user}{number}", user=user, order=10 + number))
    assert [one.job.id for one in made.plan(0).preemptions] == ["alice0", "bob2"]


def test_a_job_that_passes_a_reservation_takes_back_what_is_lent() -> None:
    made = running(
        cluster(node("a", 2), vision=2, speech=0),
        job("short", limit=100),
        job("lent", vc="speech", priority=-1),
    )
    made.submit(job("head", role(count=2), order=1))
    made.submit(job("passes", limit=50, order=2))
    assert [one.job.id for one in made.plan(0).preemptions] == ["passes"]


def test_of_a_job_that_is_no_gang_those_tasks_end_whose_virtual_cells_are_wanted() -> None:
    made = running(cluster(node("a", 2), node("b", 2), vision=3, speech=1), job("low", role(count=3), gang=False))
    held = {
        use.virtual_cell: task.placement.task
        for one in made.snapshot().running
        for task in one.tasks
        for use in task.placement.leaves
    }
    made.submit(job("high", role(count=2), priority=20))
    (preempt,) = made.plan(0).preemptions
    assert set(preempt.victims[0].tasks) == {held[cell] for cell in cells_of(preempt)}


def test_what_a_gang_that_ends_has_beside_the_wanted_cells_is_not_given_to_those_behind_it() -> None:
    made = running(cluster(node("a"), vision=3, speech=1), job("gang", role(count=3), priority=5))
    made.submit(job("behind", priority=1))
    made.submit(job("high", role(count=2), priority=9))
    assert [one.job.id for one in made.plan(0).preemptions] == ["high"]


def test_cpu_that_a_task_without_gpus_uses_comes_back_to_the_gpus_it_belongs_to() -> None:
    made = running(cluster(node("a", 4, cpu=64), vision=4), job("thrifty", role(gpus=4, cpu=16)))
    made.submit(job("cpu", role(gpus=0, cpu=48, sku=None)))
    assert [start.job.id for start in made.advance(0).starts] == ["cpu"]
    made.finish("thrifty")
    (preempt,) = engine_with(made, job("mine", role(gpus=4, cpu=64))).plan(0).preemptions
    assert [victim.job for victim in preempt.victims] == ["cpu"]


def engine_with(made: Engine, asked: Job) -> Engine:
    made.submit(asked)
    return made


def test_two_jobs_of_one_moment_may_take_the_leaves_of_one_gang() -> None:
    made = engine(cluster(node("a", 2), vision=2), job("lent", role(count=2), priority=-1))
    made.advance(0)
    for name in ("one", "two"):
        made.submit(job(name, order=ord(name[0])))
    made.carry_out(made.plan(1))
    made.finish("lent")
    assert sorted(start.job.id for start in made.plan(1).starts) == ["one", "two"]
