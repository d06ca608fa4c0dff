"""CPU and memory: who has a right to how much of a node, who gives it back for whom, and for whom nobody does."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling import (
    Borrow,
    CellType,
    Cluster,
    Engine,
    Job,
    Preempt,
    QuotaLine,
    Running,
    TaskPlacement,
    VirtualCluster,
    refusals,
)
from tests.unit.scheduling.builders import carry_out, cluster, engine, job, node, role, running, victims_of, wait_of
from tests.unit.scheduling.playing import PASSES


@pytest.mark.parametrize("preemptible", [True, False])
@pytest.mark.parametrize("priority", [10, 120])
@pytest.mark.parametrize("kind", ["cpu", "memory"])
def test_inside_a_team_only_a_lower_priority_gives_back(kind: str, priority: int, preemptible: bool) -> None:
    """The one that waits has a right to 16 of 64, of which 4 idle."""
    there = cluster(node("a", 4, cpu=64, memory=64), vision=4)
    large, small = (role(cpu=60), role(cpu=8)) if kind == "cpu" else (role(memory=60), role(memory=8))
    made = running(there, job("v", large, priority=priority, preemptible=preemptible))
    made.submit(job("q", small, priority=10, at=1))
    for now in range(1, 11):
        assert carry_out(made, now).answers == ()
    reason = wait_of(made.plan(11), "q").reason
    assert reason.code == "resources"
    assert reason.numbers["job"] == "v"
    beyond = "44 CPU" if kind == "cpu" else "44 GB"
    assert reason.sentence.endswith(f"; job v has {beyond} there beyond the share of its GPUs")


def test_inside_a_team_a_higher_priority_gets_its_share() -> None:
    made = running(cluster(node("a", 4, cpu=64), vision=4), job("v", role(cpu=60), priority=10))
    made.submit(job("q", role(cpu=8), priority=11, at=1))
    assert victims_of(made.plan(1)) == ["v"]


def test_whoever_has_no_more_than_the_share_of_its_gpus_stays() -> None:
    """The reserve for idle GPUs says nothing of the right of those that are busy."""
    teams = {"one": 1, "two": 1, "three": 1, "four": 1}
    made = running(
        cluster(node("a", 4, cpu=32, keep_cpu=4), **teams),
        job("v1", role(cpu=16), vc="one"), job("v2", role(cpu=8), vc="two"), job("v3", role(cpu=8), vc="three"),
    )  # fmt: skip
    made.submit(job("owner", role(cpu=4), vc="four", at=1))
    assert victims_of(made.plan(1)) == ["v1"]


def test_a_task_has_a_right_to_the_whole_share_whatever_is_kept_for_idle_gpus() -> None:
    made = running(cluster(node("a", 4, cpu=32, keep_cpu=4), one=3, two=1), job("test", role(cpu=26), vc="one"))
    made.submit(job("crit", role(cpu=8), vc="two", priority=120, at=1))
    assert victims_of(made.plan(1)) == ["test"]


def test_for_a_task_that_wants_more_than_its_share_nobody_gives_way() -> None:
    made = running(cluster(node("a", 4, cpu=32), one=3, two=1), job("lent", role(cpu=24), vc="one"))
    made.submit(job("more", role(cpu=9), vc="two", at=1))
    assert wait_of(made.plan(1), "more").reason.code == "resources"
    made.submit(job("less", role(cpu=8), vc="two", priority=11, at=1))
    assert [start.job.id for start in made.plan(1).starts] == ["less"]


def test_memory_is_not_taken_from_who_has_too_much_cpu() -> None:
    made = running(
        cluster(node("a", 4, cpu=32, memory=32), one=2, two=2),
        job("cpu", role(cpu=16, memory=8), vc="one"), job("memory", role(cpu=1, memory=20), vc="one"),
    )  # fmt: skip
    made.submit(job("owner", role(cpu=8, memory=8), vc="two", at=1))
    assert victims_of(made.plan(1)) == ["memory"]


def test_no_more_end_than_are_needed() -> None:
    """What is the least loss alone would not do; the other one alone does."""
    made = running(
        cluster(node("a", 4, cpu=32, keep_cpu=0), one=3, two=1),
        job("large", role(cpu=26), vc="one"), job("small", role(gpus=0, cpu=4, sku=None), vc="one"),
    )  # fmt: skip
    made.submit(job("owner", role(cpu=8), vc="two", at=1))
    assert victims_of(made.plan(60_000)) == ["large"]


def test_of_a_gang_all_tasks_on_the_node_end_together() -> None:
    made = running(
        cluster(node("a", 4, cpu=32), one=3, two=1),
        job("gang", role(count=2, cpu=12), vc="one"), job("other", role(cpu=1), vc="one"),
    )  # fmt: skip
    made.submit(job("owner", role(cpu=8), vc="two", at=1))
    assert victims_of(made.plan(1)) == ["gang"]


def test_opportunistic_ones_give_back_before_what_others_have_beyond_their_shares() -> None:
    made = engine(cluster(node("a", 4, cpu=32), one=2, two=1, three=1))
    for now, one in enumerate([job("oppo", role(cpu=8), vc="two", priority=-1), job("more", role(cpu=20), vc="one")]):
        made.submit(one)
        assert made.advance(now * 3_600_000).starts
    made.submit(job("owner", role(cpu=8), vc="three", at=1))
    assert victims_of(made.plan(3_600_001)) == ["oppo"]


@pytest.mark.parametrize("cpu", [8, 12])
def test_a_claim_keeps_the_cpu_that_its_task_needs(cpu: int) -> None:
    """It waits for the grace of a job that uses little of it; a task without GPUs does not get the rest meanwhile."""
    made = running(
        cluster(node("a", 2, cpu=16, keep_cpu=0), one=1, two=1), job("oppo", role(count=2), priority=-1, vc="two")
    )
    made.submit(job("owner", role(cpu=cpu), vc="one", at=1))
    plan = made.plan(1)
    assert victims_of(plan) == ["oppo"]
    made.carry_out(plan)
    made.submit(job("bare", role(gpus=0, cpu=16 - cpu, sku=None), vc="two", at=2))
    made.submit(job("too large", role(gpus=0, cpu=17 - cpu, sku=None), vc="two", priority=11, at=2))
    assert made.plan(2).starts == ()
    made.finish("oppo")
    assert sorted(start.job.id for start in made.plan(3).starts) == ["bare", "owner"]


TEAMS = ("one", "two", "three")


@st.composite
def streams(draw: st.DrawFn) -> tuple[Cluster, list[tuple[Job, int | None]]]:
    """Nodes of 4 GPUs, 32 CPU and 32 GB, teams that own them, and jobs for these with any CPU and memory; after each
    one which of those that run ends, if any."""
    nodes = tuple(node(f"n{number}", 4, cpu=32, memory=32, keep_cpu=4) for number in range(draw(st.integers(1, 2))))
    quotas = draw(st.lists(st.integers(0, 3), min_size=3, max_size=3))
    there = cluster(*nodes, **dict(zip(TEAMS, quotas if sum(quotas) <= 4 * len(nodes) else [2, 1, 1], strict=True)))
    return there, [(draw(jobs(number)), draw(st.none() | st.integers(0, 9))) for number in range(14)]


@st.composite
def jobs(draw: st.DrawFn, number: int) -> Job:
    gpus, priority = draw(st.sampled_from([0, 1, 1, 1, 2])), draw(st.sampled_from([-1, 10, 10, 120]))
    cpu, memory = draw(st.integers(1, 20)), draw(st.integers(1, 20))
    wants = role(count=draw(st.integers(1, 2)), gpus=gpus, sku="A100" if gpus else None, cpu=cpu, memory=memory)
    return job(
        f"j{number}", wants, vc=draw(st.sampled_from(TEAMS)), priority=priority, order=number, at=number,
        gang=draw(st.booleans()), borrow=draw(st.sampled_from(Borrow)),
        preemptible=priority < 0 or draw(st.booleans()),
    )  # fmt: skip


@settings(max_examples=150)
@given(streams())
def test_in_any_world_only_loans_and_excess_end_and_nobody_in_vain(
    world: tuple[Cluster, list[tuple[Job, int | None]]],
) -> None:
    there, stream = world
    made, taking = Engine(there), set[str]()
    for now, (one, ends) in enumerate(stream):
        if not refusals(there, one):
            made.submit(one)
        for _ in range(PASSES):
            before = {one.job.id: one for one in made.snapshot().running}
            plan = carry_out(made, now)
            assert taking <= {start.job.id for start in plan.starts}, "somebody ended for a job that does not start"
            for preempt in plan.preemptions:
                check_victims(before, preempt)
            taking = {preempt.job.id for preempt in plan.preemptions}
            if not plan.answers and not plan.promotions:
                break
        else:
            raise AssertionError("every pass changes something")
        if before and ends is not None:
            made.finish(sorted(before)[ends % len(before)])


def check_victims(before: Mapping[str, Running], preempt: Preempt) -> None:
    """Each victim has what the job takes, or more of a node's CPU or memory than its right, and gives way. What it has
    by right goes to a strictly higher priority of its team alone."""
    uses = [use for placement in preempt.placements for use in placement.leaves]
    taken = {use.leaf for use in uses} | {use.virtual_cell for use in uses}
    nodes = {placement.node for placement in preempt.placements}
    for gone in preempt.victims:
        victim = before[gone.job]
        gives_way = victim.job.vc != preempt.job.vc or victim.job.priority < preempt.job.priority
        for_what = [
            not taken.isdisjoint({use.leaf for use in one.leaves} | {use.virtual_cell for use in one.leaves} - {None})
            or (one.node in nodes and (gives_way or not one.leaves) and has_on_loan(one))
            for one in (task.placement for task in victim.tasks)
            if one.task in gone.tasks
        ]
        assert any(for_what) if victim.job.gang else all(for_what), (preempt.job.id, gone)
        cells = {use.virtual_cell for one in victim.tasks for use in one.placement.leaves if use.virtual_cell}
        if not taken.isdisjoint(cells) or any(use.virtual_cell is None for use in uses):
            assert victim.job.vc == preempt.job.vc
            assert victim.job.priority < preempt.job.priority


def has_on_loan(one: TaskPlacement) -> bool:
    """Whether a task on such a node has more than the share of its GPUs, or these on loan."""
    gpus = len(one.leaves)
    lent = not gpus or any(use.virtual_cell is None for use in one.leaves)
    return lent or one.cpu_milli > 8_000 * gpus or one.memory_mb > 8_192 * gpus


def test_nobody_ends_on_one_node_where_another_has_all_that_is_wanted() -> None:
    """On the first fewer GPUs are on loan, and too little CPU is left beside them."""
    there = Cluster(
        tuple(node(name, 4, cpu=32, keep_cpu=0, shape="whole") for name in "ab"),
        (VirtualCluster("one", (QuotaLine("A100", 0),)), VirtualCluster("two", (QuotaLine("whole", 1),))),
        cell_types=(CellType("whole", "A100", 4, node_level=True),),
    )
    made = Engine(there)
    for name, gpus, cpu in (("a", 1, 28), ("b", 2, 8)):
        made.submit(job(f"on {name}", role(gpus=gpus, cpu=cpu), vc="one", priority=-1, only=(name,)))
    assert len(made.advance(0).starts) == 2
    made.submit(job("owner", role(cpu=8), vc="two", at=1))
    plan = made.plan(1)
    assert (victims_of(plan), plan.starts[0].placements[0].node) == ([], "b")
