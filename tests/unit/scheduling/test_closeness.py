"""The smallest cell that holds a task comes before the fewest nodes for its gang."""

import pytest

from scheduling import CellType, Cluster, Engine, Job, QuotaLine, Role, Start, VirtualCluster
from tests.unit.scheduling.builders import job, node, role

SWITCHED = (
    CellType("L2", "A100", 2), CellType("L3", "L2", 2), CellType("L4", "L3", 2, node_level=True),
)  # fmt: skip
EVERY = frozenset(range(8))

CASES = {
    "a gang whose pairs would be torn on one node takes two": (
        {"n1": {0, 2, 4, 6}, "n2": {0, 1}, "n3": {4, 5}}, (role(count=2, gpus=2),), ["n2:01", "n3:45"],
    ),
    "of nodes with whole pairs the fewest": (
        {"n1": {0, 1}, "n2": {2, 3, 6, 7}, "n3": {4, 5}}, (role(count=2, gpus=2),), ["n2:23", "n2:67"],
    ),
    "a torn pair is better than none": (
        {"n1": {0, 2}, "n2": {0, 1}}, (role(count=2, gpus=2),), ["n1:02", "n2:01"],
    ),
    "unequal tasks: the large one gets the socket that is whole": (
        {"n1": {0, 1, 6, 7}, "n2": {4, 5, 6, 7}}, (role("a", 1, 4), role("b", 2, 2)), ["n1:01", "n1:67", "n2:4567"],
    ),
    "unequal tasks on two nodes where one would tear them": (
        {"n1": {0, 1, 2, 4, 6, 7}, "n2": {0, 1, 2, 3}, "n3": {6, 7}}, (role("a", 1, 4), role("b", 1, 2)),
        ["n2:0123", "n3:67"],
    ),
    "unequal tasks that fit only torn": (
        {"n1": {0, 2, 4, 6, 7}, "n2": {1}}, (role("a", 1, 4), role("b", 2, 1)), ["n1:0467", "n1:2", "n2:1"],
    ),
}  # fmt: skip


def cluster_with(free: dict[str, set[int]]) -> Cluster:
    """Nodes of which only these GPUs can be used; all belong to the team vision."""
    nodes = (node(name, 8, shape="L4", sick=tuple(EVERY - gpus)) for name, gpus in free.items())
    team = VirtualCluster("vision", (QuotaLine("A100", 8 * len(free)),))
    return Cluster(tuple(nodes), (team,), cell_types=SWITCHED)


def places(asked: Job, free: dict[str, set[int]]) -> list[str]:
    """Where the tasks go: the node and its GPUs."""
    answer = Engine(cluster_with(free)).decide(asked, 0)
    assert isinstance(answer, Start)
    found = []
    for placement in answer.placements:
        gpus = sorted(use.leaf.rsplit(":", 1)[1] for use in placement.leaves)
        found.append(f"{placement.node}:{''.join(gpus)}")
    return sorted(found)


@pytest.mark.parametrize("priority", [-1, 10], ids=["on loan", "in the quota"])
@pytest.mark.parametrize("case", CASES)
def test_where_a_gang_goes(case: str, priority: int) -> None:
    free, roles, expected = CASES[case]
    asked: tuple[Role, ...] = roles
    assert places(job("gang", *asked, priority=priority), free) == expected
