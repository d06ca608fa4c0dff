"""Where jobs go: the fewest nodes, the smallest sufficient hole, never more than a node has."""

from dataclasses import dataclass

import pytest

from scheduling import Cluster, Engine, Job, Node, NodeState, Role, Standing, Start
from scheduling.model.job import OPPORTUNISTIC
from tests.unit.scheduling.builders import carry_out, cluster, engine, job, node, nodes_of, role, running


def busy(name: str, used: int, gpus: int = 8) -> tuple[Node, Job | None]:
    """A node of which `used` GPUs are taken."""
    filler = job(f"fill-{name}", role(gpus=used, cpu=0, memory=0), only=(name,)) if used else None
    return node(name, gpus), filler


def place(pairs: list[tuple[Node, Job | None]], asked: Job) -> dict[str, int] | None:
    """Tasks per node of the job that comes to these nodes, None when it waits."""
    nodes = [one for one, _ in pairs]
    gpus = sum(len(one.leaves) for one in nodes)
    made = running(cluster(*nodes, vision=gpus), *(filler for _, filler in pairs if filler))
    answer = made.decide(asked, 0)
    return nodes_of(answer) if isinstance(answer, Start) else None


@dataclass(frozen=True)
class Case:
    used: dict[str, int]
    roles: tuple[Role, ...]
    expected: dict[str, int] | None
    gpus: int = 8


CASES = {
    "a small job goes where the hole is smallest": Case({"a": 0, "b": 5, "c": 2}, (role(gpus=2),), {"b": 1}),
    "an exact hole beats a larger one": Case({"a": 0, "b": 4, "c": 5}, (role(gpus=4),), {"b": 1}),
    "equal holes: the node whose id comes first": Case({"c": 0, "b": 0}, (role(),), {"b": 1}),
    "a task never spans two nodes": Case({"a": 5, "b": 5}, (role(gpus=4),), None),
    "a gang that fits one node goes to one": Case({"a": 3, "b": 0, "c": 3}, (role(count=6),), {"b": 6}),
    "a gang on one node takes the smallest that holds it all": Case(
        {"a": 0, "b": 2}, (role(count=3, gpus=2),), {"b": 3}
    ),
    "a large gang takes the nodes that hold most of it": Case(
        {"a": 6, "b": 0, "c": 1, "d": 6}, (role(count=15),), {"b": 8, "c": 7}
    ),
    "the rest of a gang goes into the smallest hole that takes it": Case(
        {"a": 0, "b": 0, "c": 6}, (role(count=10),), {"a": 8, "c": 2}
    ),
    "a gang whose tasks fit no way waits": Case({"a": 5, "b": 5, "c": 5}, (role(count=4, gpus=2),), None),
    "a gang that needs every hole gets every hole": Case(
        {"a": 5, "b": 4, "c": 6}, (role(count=4, gpus=2),), {"a": 1, "b": 2, "c": 1}
    ),
    "unequal tasks go to one node where one holds them": Case(
        {"a": 4, "b": 0}, (role("ps", 1, 2), role("worker", 1, 4)), {"b": 2}
    ),
    "unequal tasks: the large one finds the only hole for it": Case(
        {"a": 6, "b": 4}, (role("small", 1, 2), role("large", 1, 4)), {"a": 1, "b": 1}
    ),
    "unequal tasks that fit only one way find it": Case(
        {"a": 2, "b": 3}, (role("x", 2, 3), role("y", 1, 5)), {"a": 2, "b": 1}
    ),
    "unequal tasks of which one fits nowhere wait": Case(
        {"a": 6, "b": 5}, (role("small", 1, 1), role("large", 1, 4)), None
    ),
    "roles that differ only in memory still fill the nodes": Case(
        {"a": 6, "b": 6}, (role("x", 2, 1, memory=1), role("y", 2, 1, memory=2)), {"a": 2, "b": 2}
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_gpus(case: str) -> None:
    described = CASES[case]
    pairs = [busy(name, used, described.gpus) for name, used in described.used.items()]
    assert place(pairs, job("asked", *described.roles)) == described.expected


def test_a_gang_with_a_hundred_unequal_tasks_is_answered_and_keeps_within_every_node() -> None:
    described = cluster(*(node(f"n{number:02}", 8) for number in range(20)), vision=160)
    made = engine(described)
    answer = made.decide(job("big", role("a", 40, 1), role("b", 30, 2), role("c", 15, 4)), 0)
    assert isinstance(answer, Start)
    leaves = [use.leaf for placement in answer.placements for use in placement.leaves]
    assert len(leaves) == len(set(leaves)) == 160


CPU_CASES = {
    "a task without GPUs prefers a node without GPUs": (
        cluster(node("a", 4), node("b", 0), vision=4), role(gpus=0, cpu=4, sku=None), {"b": 1},
    ),
    "where GPUs idle their share of CPU is kept": (
        cluster(node("a", 4, cpu=64), vision=4), role(gpus=0, cpu=1, sku=None), None,
    ),
    "the reserve can be set: what is beyond it may be used": (
        cluster(node("a", 4, cpu=64, keep_cpu=8, keep_memory=0), vision=4),
        role(gpus=0, cpu=32, sku=None), {"a": 1},
    ),
    "and no more than what is beyond it": (
        cluster(node("a", 4, cpu=64, keep_cpu=8, keep_memory=0), vision=4),
        role(gpus=0, cpu=33, sku=None), None,
    ),
    "memory is kept like CPU": (
        cluster(node("a", 4, memory=256, keep_cpu=0, keep_memory=32), vision=4),
        role(gpus=0, memory=129, sku=None), None,
    ),
    "a task with GPUs may use what is there": (
        cluster(node("a", 4, cpu=64), vision=4), role(gpus=1, cpu=64), {"a": 1},
    ),
    "a SKU named by a task without GPUs is the node's": (
        cluster(node("a", 4, keep_cpu=0, keep_memory=0), node("b", 0), vision=4),
        role(gpus=0, sku="A100"), {"a": 1},
    ),
    "a gang without GPUs goes to one node where it can": (
        cluster(node("a", 0, cpu=4), node("b", 0, cpu=8), vision=0),
        role(count=3, gpus=0, cpu=2, sku=None), {"b": 3},
    ),
    "CPU counts on every node of a gang": (
        cluster(node("a", 4, cpu=8), node("b", 4, cpu=8), vision=8),
        role(count=4, cpu=4), {"a": 2, "b": 2},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CPU_CASES)
def test_cpu_and_memory(case: str) -> None:
    described, asked, expected = CPU_CASES[case]
    answer = engine(described).decide(job("asked", asked), 0)
    assert (nodes_of(answer) if isinstance(answer, Start) else None) == expected


def test_tasks_with_gpus_that_take_less_than_their_share_leave_the_rest_to_tasks_without() -> None:
    made = running(cluster(node("a", 4, cpu=64), vision=4), job("gpu", role(gpus=4, cpu=16, memory=16)))
    assert isinstance(made.decide(job("cpu", role(gpus=0, cpu=48, sku=None)), 0), Start)
    assert not isinstance(made.decide(job("cpu", role(gpus=0, cpu=49, sku=None)), 0), Start)


TWO = cluster(node("a"), node("b"), vision=8)
NODES = {
    "a job stays on the nodes it names": (TWO, job("j", only=("b",)), {"b": 1}),
    "a job that failed on a node is tried elsewhere": (TWO, job("j", avoid=("a",)), {"b": 1}),
    "unless the other nodes have too little for it": (TWO, job("j", role(count=8), avoid=("a",)), {"a": 4, "b": 4}),
    "a cordoned node takes nothing": (
        cluster(node("a", state=NodeState.CORDONED), node("b"), vision=8), job("j"), {"b": 1},
    ),
    "a draining node takes nothing": (
        cluster(node("a", state=NodeState.DRAINING), node("b"), vision=8), job("j"), {"b": 1},
    ),
    "a node that is down takes nothing": (
        cluster(node("a", state=NodeState.DOWN), node("b"), vision=8), job("j"), {"b": 1},
    ),
    "a faulty GPU is left out": (
        cluster(node("a", sick=(0, 1)), vision=4), job("j", role(count=2)), {"a": 2},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NODES)
def test_nodes(case: str) -> None:
    described: Cluster
    described, asked, expected = NODES[case]
    answer = engine(described).decide(asked, 0)
    assert isinstance(answer, Start)
    assert nodes_of(answer) == expected


@pytest.mark.parametrize("gpus", [4, 0])
def test_a_job_that_failed_on_a_node_does_not_wait_for_the_others_while_that_one_has_a_place(gpus: int) -> None:
    nodes = cluster(node("a", gpus), node("b", gpus), vision=2 * gpus)
    whole = role(gpus=gpus, cpu=64, sku="A100" if gpus else None)
    asked = job("j", whole, avoid=("a",))
    for made, home in ((running(nodes, job("other", whole, only=("b",))), "a"), (engine(nodes), "b")):
        answer = made.decide(asked, 0)
        assert isinstance(answer, Start)
        assert nodes_of(answer) == {home: 1}


def test_an_opportunistic_job_neither() -> None:
    full = running(TWO, job("other", role(gpus=4), only=("b",)))
    answer = full.decide(job("j", priority=OPPORTUNISTIC, avoid=("a",)), 0)
    assert isinstance(answer, Start)
    assert nodes_of(answer) == {"a": 1}


def test_a_faulty_gpu_is_never_given_out() -> None:
    made = engine(cluster(node("a", sick=(0, 2)), vision=4))
    answer = made.decide(job("j", role(count=2)), 0)
    assert isinstance(answer, Start)
    assert [use.leaf for placement in answer.placements for use in placement.leaves] == ["a:1", "a:3"]


def test_a_job_keeps_to_the_nodes_it_names() -> None:
    answer = engine(TWO).decide(job("j", only=("b",)), 0)
    assert isinstance(answer, Start)
    assert nodes_of(answer) == {"b": 1}


def test_guaranteed_gpus_sit_in_the_lowest_free_virtual_cells() -> None:
    made = running(TWO, job("first"), job("second"))
    made.finish("first")
    answer = made.decide(job("third", role(gpus=2)), 0)
    assert isinstance(answer, Start)
    uses = answer.placements[0].leaves
    assert [use.virtual_cell for use in uses] == ["vision/A100/0", "vision/A100/2"]
    assert {use.standing for use in uses} == {Standing.GUARANTEED}


MIXED = cluster(node("a", 4, "A100"), node("h", 4, "H100"), vision={"A100": 4, "H100": 4})
SKUS = {
    "a job that names no SKU takes the first by name": (role(gpus=2, sku=None), {"a": 1}),
    "a job that names one gets it": (role(gpus=2, sku="H100"), {"h": 1}),
    "a gang that names none stays on one SKU": (role(count=5, sku=None), None),
}


@pytest.mark.parametrize("case", SKUS)
def test_skus(case: str) -> None:
    asked, expected = SKUS[case]
    answer = engine(MIXED).decide(job("j", asked), 0)
    assert (nodes_of(answer) if isinstance(answer, Start) else None) == expected


def test_a_job_that_names_no_sku_takes_the_next_when_the_first_is_full() -> None:
    made = running(MIXED, job("full", role(gpus=4)))
    answer = made.decide(job("j", role(gpus=2, sku=None)), 0)
    assert isinstance(answer, Start)
    assert nodes_of(answer) == {"h": 1}


def test_a_gang_whose_roles_name_two_skus_gets_both() -> None:
    made = engine(MIXED)
    answer = made.decide(job("j", role("x", 2, 2, sku="A100"), role("y", 1, 4, sku="H100")), 0)
    assert isinstance(answer, Start)
    assert nodes_of(answer) == {"a": 2, "h": 1}


def test_a_task_without_gpus_starts_in_the_same_plan_as_the_job_that_frees_the_reserve_for_it() -> None:
    made = engine(
        cluster(node("a", 4, cpu=64), vision=4),
        job("cpu", role(gpus=0, cpu=8, sku=None), at=1),
        job("gpu", role(gpus=4, cpu=16), at=2),
    )
    assert [start.job.id for start in carry_out(made).starts] == ["gpu", "cpu"]


def test_equal_holes_are_filled_from_the_first_node_whatever_ran_there_before() -> None:
    described = cluster(node("a", 4, sick=(0,)), node("b", 4, sick=(1,)), vision=0)
    fresh, used = engine(described), engine(described, job("gone", role(), priority=-1, only=("a",)))
    carry_out(used)
    used.finish("gone")
    gang = job("gang", role(count=2, gpus=3), priority=-1)
    for made in (fresh, used):
        answer = made.decide(gang, 0)
        assert isinstance(answer, Start)
        assert [(one.task.index, one.node) for one in answer.placements] == [(0, "a"), (1, "b")]


def test_the_order_in_which_nodes_became_free_decides_nothing() -> None:
    described = cluster(node("a", 2), node("b", 2), vision=4)
    jobs = [job(f"{name}{index}", only=(name,), order=index) for name in "ab" for index in range(2)]
    made = running(described, *jobs)
    made.finish("b0")
    made.finish("a1")
    made.submit(job("gang", role(count=2)))
    assert made.plan(0) == Engine.restore(made.snapshot()).plan(0)
    assert [one.node for one in made.plan(0).starts[0].placements] == ["a", "b"]


def test_a_node_may_have_more_leaves_than_fit_a_byte() -> None:
    big = cluster(node("n0", 300, cpu=600, memory=600), node("n1", 300, cpu=600, memory=600), vision=600)
    made = engine(big, *(job(f"j{number:03}", order=number) for number in range(600)))
    starts = made.advance(1).starts
    assert len({use.leaf for start in starts for place in start.placements for use in place.leaves}) == 600
    assert Engine.restore(made.snapshot()).snapshot() == made.snapshot()
