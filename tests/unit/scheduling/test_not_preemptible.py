"""Jobs that nobody may preempt keep their cells when the quota becomes smaller, and what goes with them."""

from dataclasses import replace

from scheduling import (
    CellType,
    Cluster,
    Engine,
    Plan,
    QuotaLine,
    VirtualCluster,
)
from tests.unit.scheduling.builders import cluster, engine, job, node, role, running, victims_of


def cut(made: Engine, described: Cluster) -> Plan:
    """The plan of the smaller quota, carried out."""
    made.reconfigure(described)
    plan = made.plan(1)
    made.carry_out(plan)
    after = made.plan(1)
    assert (after.demotions, after.promotions) == ((), ())
    return plan


def test_a_job_that_is_not_preemptible_gets_the_cells_that_a_smaller_quota_leaves() -> None:
    made = running(
        cluster(node("a", 4), vision=4), job("o1", priority=20), job("o2", order=1),
        job("firm", role(gpus=2), order=2, preemptible=False),
    )  # fmt: skip
    smaller = cluster(node("a", 4), vision=2, speech=2)
    plan = cut(made, smaller)
    assert [one.job for one in plan.demotions] == ["firm", "o1", "o2"]
    assert [one.job for one in plan.promotions] == ["firm"]
    made.submit(job("owner", role(gpus=2), vc="speech", priority=1000))
    assert victims_of(made.plan(2)) == ["o1", "o2"]
    assert Engine.restore(made.snapshot()).plan(2) == made.plan(2)


def test_as_few_as_needed_give_up_their_cells_for_it_and_the_last_in_order_first() -> None:
    made = running(
        cluster(node("a", 4), vision=4), job("o1"), job("o2", priority=5), job("o3", order=2),
        job("firm", order=3, preemptible=False),
    )  # fmt: skip
    plan = cut(made, cluster(node("a", 4), vision=3, speech=1))
    assert [one.job for one in plan.demotions] == ["firm", "o2"]
    state = {one.job.id: one for one in made.snapshot().running}
    assert all(use.virtual_cell for task in state["firm"].tasks for use in task.placement.leaves)


def test_it_moves_to_free_cells_where_there_are_and_nobody_gives_up_any() -> None:
    made = running(cluster(node("a", 4), vision=4), job("o1"), job("o2", order=1), job("firm", preemptible=False))
    made.finish("o1")
    plan = cut(made, cluster(node("a", 4), vision=2, speech=2))
    assert [one.job for one in plan.demotions] == [one.job for one in plan.promotions] == ["firm"]


def test_its_node_is_a_cell_of_the_quota_that_is_left_though_another_job_was_in_it() -> None:
    whole = (CellType("whole", "A100", 4, node_level=True),)
    nodes = tuple(node(name, 4, shape="whole") for name in "ab")

    def owned(vision: int, speech: int) -> Cluster:
        teams = (
            VirtualCluster("speech", (QuotaLine("whole", speech),)),
            VirtualCluster("vision", (QuotaLine("whole", vision),)),
        )
        return Cluster(nodes, teams, cell_types=whole)

    made = running(owned(2, 0), job("other", role(gpus=4)), job("firm", role(gpus=4), order=1, preemptible=False))
    plan = cut(made, owned(1, 1))
    assert [one.job for one in plan.demotions] == ["firm", "other"]
    made.submit(job("owner", role(gpus=4), vc="speech"))
    assert victims_of(made.plan(2)) == ["other"]


def test_where_the_quota_holds_not_even_it_nobody_gives_up_cells_for_nothing() -> None:
    made = running(cluster(node("a", 4), vision=4), job("o1"), job("firm", role(gpus=3), order=1, preemptible=False))
    plan = cut(made, cluster(node("a", 4), vision=2, speech=2))
    assert [one.job for one in plan.demotions] == ["firm"]
    assert plan.promotions == ()


def test_of_a_job_that_is_no_gang_and_not_preemptible_as_many_tasks_as_there_are_cells_for_stay_inside() -> None:
    made = running(
        cluster(node("a", 4), vision=4), job("o1"), job("firm", role(count=3), order=1, gang=False, preemptible=False)
    )
    plan = cut(made, cluster(node("a", 4), vision=2, speech=2))
    assert [one.job for one in plan.demotions] == ["firm", "o1"]
    assert len(plan.promotions) == 2


def test_of_two_jobs_whose_places_the_cut_leaves_only_one_the_one_that_is_not_preemptible_keeps_its_own() -> None:
    whole = (CellType("whole", "A100", 4, node_level=True),)
    nodes = tuple(node(name, 4, shape="whole") for name in "ab")
    there = replace(cluster(*nodes, vision=8, speech=0), cell_types=whole)
    made = running(there, job("other", only=("a",)), job("firm", only=("b",), order=1, preemptible=False))
    teams = (
        VirtualCluster("speech", (QuotaLine("whole", 1),)),
        VirtualCluster("vision", (QuotaLine("A100", 4),)),
    )
    plan = cut(made, replace(there, virtual_clusters=teams))
    assert [one.job for one in plan.demotions] == ["other"]
    assert plan.promotions == ()


# CPU and memory


def on_a_small_reserve(**cores: int) -> Engine:
    """Jobs of one GPU each with so many cores, on a node of 4 GPUs, 32 cores and a reserve of 4 cores for a GPU."""
    made = engine(cluster(node("a", 4, cpu=32, keep_cpu=4), vision=3, speech=1))
    for number, (name, cpu) in enumerate(cores.items()):
        made.submit(job(name, role(gpus=1, cpu=cpu), order=number, preemptible=not name.startswith("firm")))
    assert len(made.advance(0).starts) == len(cores)
    made.submit(job("owner", role(gpus=1, cpu=4), vc="speech", at=1))
    return made


def test_who_is_not_preemptible_keeps_the_part_of_the_node_that_goes_with_its_gpus() -> None:
    assert victims_of(on_a_small_reserve(firm1=8, firm2=8, other=15).plan(1)) == ["other"]
    assert victims_of(on_a_small_reserve(one=8, two=8, other=15).plan(1)) != []


def test_who_is_not_preemptible_and_has_more_than_that_part_goes_after_all_others() -> None:
    assert victims_of(on_a_small_reserve(firm=10, one=9, two=12).plan(1)) in (["one"], ["two"])
    assert victims_of(on_a_small_reserve(firm=25, one=3, two=3).plan(1)) == ["firm"]
