"""Cells split and merge, virtual cells are chosen best-fit, hardware is chosen for them, and moved into in place."""

from dataclasses import replace

import pytest

from scheduling import (
    Borrow,
    CellType,
    Cluster,
    Code,
    Engine,
    Node,
    NodeState,
    PinnedCell,
    Policy,
    QuotaLine,
    QuotaTooLarge,
    Start,
    UpperCell,
    VirtualCluster,
)
from scheduling.model.cluster import Order
from tests.unit.scheduling.builders import cluster, engine, job, node, nodes_of, role, running, wait_of
from tests.unit.scheduling.playing import run_to_the_end

SWITCHED = (
    CellType("L2", "A100", 2), CellType("L3", "L2", 2), CellType("L4", "L3", 2, node_level=True),
)  # fmt: skip
TYPES = ("L4", "L3", "L2", "A100")


def rack(nodes: int = 4, **quotas: dict[str, int]) -> Cluster:
    """Nodes of 8 GPUs in sockets (L3) and switches (L2); quotas by type."""
    teams = (VirtualCluster(name, tuple(QuotaLine(*line) for line in lines.items())) for name, lines in quotas.items())
    return Cluster(
        tuple(node(f"n{number}", 8, shape="L4") for number in range(1, nodes + 1)), tuple(teams), cell_types=SWITCHED
    )


SEVENTH = rack(a={"L3": 1, "L2": 1, "A100": 1}, b={"L3": 1, "L2": 1, "A100": 1}, c={"L4": 2, "L2": 1})


def free_cells(made: Engine) -> dict[str, int]:
    """Wholly unbound cells that lie in no larger unbound one, by type."""
    sizes = dict(zip(TYPES, (8, 4, 2, 1), strict=True))
    counts = dict.fromkeys(TYPES, 0)
    for bound in made._allocator.bound:
        left = 255 & ~bound
        for name, size in sizes.items():
            for base in range(0, 8, size):
                block = (1 << size) - 1 << base
                if left & block == block:
                    counts[name] += 1
                    left &= ~block
    return counts


def test_t7_cells_are_split_only_as_far_as_needed_and_buddies_are_used_first() -> None:
    made = Engine(SEVENTH)
    seen = []
    asked = [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("c", 2), ("a", 4), ("b", 4), ("c", 8), ("c", 8)]
    for number, (vc, gpus) in enumerate(asked):
        made.submit(job(f"{vc}{number}", role(gpus=gpus), vc=vc, order=number))
        (start,) = made.advance(0).starts
        seen.append(tuple(free_cells(made).values()))
    assert seen == [
        (3, 1, 1, 1), (3, 1, 1, 0), (3, 1, 0, 0), (3, 0, 1, 0), (3, 0, 0, 0),
        (2, 1, 0, 0), (2, 0, 0, 0), (1, 0, 0, 0), (0, 0, 0, 0),
    ]  # fmt: skip
    for number in (4, 0, 8, 2, 6, 1, 3, 7, 5):
        made.finish(f"{asked[number][0]}{number}")
    assert tuple(free_cells(made).values()) == (4, 0, 0, 0)


def test_t7_quotas_that_cannot_be_cut_out_are_refused() -> None:
    with pytest.raises(QuotaTooLarge):
        rack(a={"L3": 1, "L2": 1, "A100": 2}, b={"L3": 1, "L2": 1, "A100": 1}, c={"L4": 2, "L2": 1})
    with pytest.raises(QuotaTooLarge):
        rack(a={"L4": 4}, b={"A100": 1})
    assert rack(a={"L4": 3, "L3": 1}, b={"L3": 1}).nodes


def test_t8_two_jobs_of_two_gpus_lie_in_one_cell_of_four_on_different_switches() -> None:
    made = engine(rack(1, a={"L3": 1}), *(job(name, role(gpus=2), vc="a", order=ord(name)) for name in "xy"))
    leaves = [use.leaf for start in made.plan(0).starts for one in start.placements for use in one.leaves]
    assert sorted(leaves) == ["n1:0", "n1:1", "n1:2", "n1:3"]
    assert all(int(one[-1]) // 2 == int(two[-1]) // 2 for one, two in zip(leaves[::2], leaves[1::2], strict=True))


def test_t9_single_gpus_of_one_team_never_stop_the_whole_node_of_another() -> None:
    described = replace(
        cluster(node("x", 16, shape="box"), node("y", 16, shape="box"), one=0, two=0),
        cell_types=(CellType("box", "A100", 16, node_level=True),),
        virtual_clusters=tuple(VirtualCluster(name, (QuotaLine("box", 1),)) for name in ("one", "two")),
    )
    made = engine(described, *(job(f"s{n:02}", vc="one", order=n) for n in range(16)))
    made.advance(0)
    made.submit(job("whole", role(gpus=16), vc="two", order=99))
    assert [start.job.id for start in made.plan(0).starts] == ["whole"]


def virtual(made: Engine, gpus: int, vc: str = "a") -> set[str]:
    """The quota cell that a job of so many GPUs gets."""
    answer = made.decide(job("asks", role(gpus=gpus), vc=vc), 0)
    assert isinstance(answer, Start)
    return {str(use.virtual_cell).rsplit("/", 1)[0] for one in answer.placements for use in one.leaves}


def test_the_smallest_quota_cell_that_holds_a_task_is_used() -> None:
    made = Engine(rack(a={"L4": 1, "L3": 1, "L2": 1, "A100": 1}))
    assert [virtual(made, gpus) for gpus in (1, 2, 4, 8)] == [{"a/A100"}, {"a/L2/0"}, {"a/L3/0"}, {"a/L4/0"}]


def test_a_quota_cell_in_use_is_filled_before_another_is_begun() -> None:
    made = running(rack(a={"L4": 3}), job("first", role(gpus=4), vc="a"))
    assert virtual(made, 4) == {"a/L4/0"}
    assert virtual(made, 8) == {"a/L4/1"}


def test_hardware_with_the_fewest_borrowed_gpus_is_taken() -> None:
    made = running(
        rack(3, a={"L4": 1}),
        job("wide", role(gpus=3), vc="a", priority=-1, only=("n1",)),
        job("small", role(gpus=1), vc="a", priority=-1, only=("n2",)),
        job("full", role(gpus=8), vc="a", priority=-1, only=("n3",)),
    )
    answer = made.decide(job("mine", role(gpus=5), vc="a"), 0)
    assert isinstance(answer, Start)
    assert nodes_of(answer) == {"n2": 1}


def test_a_faulty_leaf_is_left_out_and_a_sound_cell_preferred() -> None:
    described = rack(2, a={"L3": 1})
    made = Engine(replace(described, nodes=(node("n1", 8, shape="L4", sick=(0, 5)), described.nodes[1])))
    answer = made.decide(job("four", role(gpus=4), vc="a"), 0)
    assert isinstance(answer, Start)
    assert nodes_of(answer) == {"n2": 1}
    made.set_node(node("n2", 8, shape="L4", state=NodeState.DOWN))
    answer = made.decide(job("three", role(gpus=3), vc="a"), 0)
    assert isinstance(answer, Start)
    assert "n1:0" not in {use.leaf for use in answer.placements[0].leaves}
    assert made.decide(job("four", role(gpus=4), vc="a"), 0) != answer


@pytest.mark.parametrize("state", [NodeState.CORDONED, NodeState.DRAINING, NodeState.DOWN])
def test_a_node_out_of_service_takes_nothing_new_and_its_jobs_go_on(state: NodeState) -> None:
    made = running(rack(1, a={"L4": 1}), job("runs", role(gpus=2), vc="a"))
    made.set_node(node("n1", 8, shape="L4", state=state))
    made.submit(job("asks", vc="a"))
    plan = made.advance(0)
    assert wait_of(made.plan(0), "asks").reason.code == Code.BAD_NODES
    assert (plan.starts, plan.preemptions) == ((), ())
    assert [one.job.id for one in made.snapshot().running] == ["runs"]


# Several chains, racks, pinned cells


RACKS = Cluster(
    tuple(Node(f"m{number}", 64_000, 64_000, node(f"m{number}", 2, "A").leaves, sku="A", shape="pair", chain="r")
          for number in range(4)),
    (VirtualCluster("a", (QuotaLine("rack", 1),)), VirtualCluster("b", (QuotaLine("pair", 2),))),
    cell_types=(CellType("pair", "A", 2, node_level=True), CellType("rack", "pair", 2)),
    upper_cells=(UpperCell("r0", "rack", ("m0", "m1")), UpperCell("r1", "rack", ("m2", "m3"))),
)  # fmt: skip


def test_a_gang_in_a_rack_of_its_own_lies_in_one_rack() -> None:
    made = running(RACKS, job("b1", role(gpus=2, sku="A"), vc="b"))
    made.submit(job("b2", role(gpus=2, sku="A"), vc="b", order=1))
    made.submit(job("gang", role(count=2, gpus=2, sku="A"), vc="a", order=2))
    plan = made.advance(0)
    places = {start.job.id: set(nodes_of(start)) for start in plan.starts}
    assert places["gang"] in ({"m0", "m1"}, {"m2", "m3"})
    assert places["gang"].isdisjoint(places["b2"])


def test_two_chains_of_one_sku_are_two_places_and_a_gang_stays_in_one() -> None:
    types = (CellType("x-box", "A", 2, node_level=True), CellType("y-box", "A", 2, node_level=True))
    nodes = tuple(
        Node(name, 64_000, 64_000, node(name, 2, "A").leaves, sku="A", shape=f"{name[0]}-box", chain=name[0])
        for name in ("x1", "x2", "y1", "y2")
    )
    quota = (QuotaLine("x-box", 2, "x"), QuotaLine("y-box", 2, "y"))
    made = Engine(Cluster(nodes, (VirtualCluster("a", quota),), cell_types=types))
    seen = set()
    for name in ("one", "two"):
        made.submit(job(name, role(count=2, gpus=2, sku="A"), vc="a", order=ord(name[0])))
        (start,) = made.advance(0).starts
        seen.add("".join(sorted({one[0] for one in nodes_of(start)})))
    assert seen == {"x", "y"}


PINNED = replace(
    rack(2, a={"L4": 1}),
    pinned_cells=(PinnedCell("mine", "L3", "n1", 4),),
    virtual_clusters=(VirtualCluster("a", (QuotaLine("L4", 1),), pinned=("mine",)), VirtualCluster("b")),
)


def test_a_pinned_cell_is_where_it_is_and_only_for_those_who_name_it() -> None:
    made = Engine(PINNED)
    made.submit(job("pinned", replace(role(gpus=4), pinned_cell="mine"), vc="a"))
    made.submit(job("plain", role(gpus=8), vc="a", order=1))
    starts = {start.job.id: [use.leaf for use in start.placements[0].leaves] for start in made.advance(0).starts}
    assert sorted(starts["pinned"]) == ["n1:4", "n1:5", "n1:6", "n1:7"]
    assert all(leaf.startswith("n2:") for leaf in starts["plain"])


def test_an_idle_pinned_cell_is_lent_and_taken_back() -> None:
    made = running(PINNED, *(job(f"o{n}", role(gpus=8), vc="b", priority=-1, order=n) for n in range(2)))
    made.submit(job("pinned", replace(role(gpus=1), pinned_cell="mine"), vc="a"))
    (preempt,) = made.plan(0).preemptions
    assert preempt.placements[0].node == "n1"


# Promotion in place


def test_a_borrower_moves_in_where_it_is_when_its_quota_is_free() -> None:
    made = running(rack(1, a={"L3": 1}, b={"L3": 1}), job("holds", role(gpus=4), vc="a"))
    made.submit(job("ahead", role(gpus=4), vc="a", borrow=Borrow.AUTO, order=1))
    (start,) = made.advance(0).starts
    made.finish("holds")
    (promotion,) = made.advance(1).promotions
    assert promotion.job == "ahead"
    assert [use.leaf for use in promotion.placements[0].leaves] == [use.leaf for use in start.placements[0].leaves]


def test_no_job_moves_in_where_that_would_cost_a_whole_free_cell() -> None:
    """Its GPUs lie in two sockets, which would be two quota cells; started anew it would need one."""
    fillers = (job(f"fill{n}", role(gpus=3), vc="b", priority=-1, order=n) for n in range(2))
    made = running(rack(2, a={"L3": 2}, b={"L4": 1}), job("holds", role(count=2, gpus=4), vc="a"), *fillers)
    made.submit(job("spread", role(count=2), vc="a", borrow=Borrow.AUTO, order=4))
    (start,) = made.advance(1).starts
    assert [use.leaf for one in start.placements for use in one.leaves] == ["n2:3", "n2:7"]
    made.finish("holds")
    assert made.advance(2).promotions == ()


def test_a_borrower_moves_in_before_a_later_job_gets_the_quota() -> None:
    made = running(cluster(node("a", 3), vision=2, speech=1), job("holds", role(gpus=2)))
    made.submit(job("first", role(gpus=1), borrow=Borrow.AUTO, order=1))
    made.advance(0)
    made.submit(job("second", role(gpus=2), order=2))
    made.finish("holds")
    plan = made.advance(1)
    assert [one.job for one in plan.promotions] == ["first"]
    assert wait_of(made.plan(1), "second").reason.code == Code.QUOTA


# The named case of the guarantee


def test_a_later_borrower_is_not_kept_in_quota_that_an_earlier_job_is_owed() -> None:
    """Quota A 2, B 2: A queues a1 (1 GPU, 100 s), a2 (2, 100), a3 (1, 1,000), a4 (1, 10); B reclaims at 50 s."""
    described = replace(cluster(node("n", 4), a=2, b=2), policy=Policy(order=Order.SUBMISSION, backfill=False))
    jobs = {"a1": (1, 100), "a2": (2, 100), "a3": (1, 1_000), "a4": (1, 10)}
    arrivals = [
        (0, job(name, role(count=gpus), vc="a", order=number, borrow=Borrow.AUTO))
        for number, (name, (gpus, _)) in enumerate(jobs.items())
    ]
    arrivals.append((50, job("b", role(count=2), vc="b", at=50, order=9)))
    lasts = {name: lasting for name, (_, lasting) in jobs.items()} | {"b": 5_000}
    run = run_to_the_end(Engine(described), arrivals, lasts)
    alone = run_to_the_end(
        Engine(replace(described, nodes=(node("n", 2),), virtual_clusters=described.virtual_clusters[:1])),
        arrivals[:4],
        lasts,
    )
    assert alone.began["a4"] == [200]
    assert all(min(run.began[name]) <= min(alone.began[name]) for name in jobs)
    assert run.ended["a4"] <= alone.ended["a4"]
