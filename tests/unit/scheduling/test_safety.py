"""Quotas are taken only where they can be cut out of the cells, from the top down (HiveD's safety)."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling import (
    CellType,
    Cluster,
    ClusterError,
    Leaf,
    Node,
    PinnedCell,
    QuotaLine,
    QuotaTooLarge,
    UpperCell,
    VirtualCluster,
)
from scheduling.model.validate import shortages

TYPES = (
    CellType("switch", "A100", 2),
    CellType("socket", "switch", 2),
    CellType("node", "socket", 2, node_level=True),
    CellType("rack", "node", 2),
)
RATIOS = {"A100": 2, "switch": 2, "socket": 2, "node": 2}
ABOVE = {"A100": "switch", "switch": "socket", "socket": "node", "node": "rack"}


def machines(count: int, shape: str = "node", gpus: int = 8) -> tuple[Node, ...]:
    made = []
    for number in range(count):
        name = f"{shape}{number}"
        leaves = tuple(Leaf(f"{name}:{index}", name, index, "A100") for index in range(gpus))
        made.append(Node(name, 1000, 1024, leaves, shape=shape))
    return tuple(made)


def racks(count: int) -> Cluster:
    """Racks of two nodes of two sockets of two switches of two GPUs."""
    upper = tuple(UpperCell(f"r{one}", "rack", (f"node{2 * one}", f"node{2 * one + 1}")) for one in range(count))
    return Cluster(machines(2 * count), (), cell_types=TYPES, upper_cells=upper)


def with_quotas(made: Cluster, **quotas: dict[str, int]) -> Cluster:
    lines = {vc: tuple(QuotaLine(name, count) for name, count in quota.items()) for vc, quota in quotas.items()}
    return replace(made, virtual_clusters=tuple(VirtualCluster(vc, quota) for vc, quota in lines.items()))


TEXTBOOK = {"A": {"socket": 1, "switch": 1, "A100": 1}, "C": {"node": 2, "switch": 1}}
TAKEN = {
    "the textbook's rack, used to its last GPU": TEXTBOOK | {"B": TEXTBOOK["A"]},
    "three nodes and a socket beside a socket": {"A": {"node": 3, "socket": 1}, "B": {"socket": 1}},
    "whole racks": {"A": {"rack": 1}, "B": {"rack": 1}},
}
REFUSED = {
    "one GPU more than the textbook's": (TEXTBOOK | {"B": TEXTBOOK["A"] | {"A100": 2}}, ("A100", 33, 32)),
    "a GPU beside all nodes": ({"A": {"node": 4}, "B": {"A100": 1}}, ("A100", 33, 32)),
    "two racks and a node": ({"A": {"rack": 2}, "B": {"node": 1}}, ("node", 5, 4)),
    "a rack too many, told of the rack alone": ({"A": {"rack": 3}}, ("rack", 3, 2)),
    "a type that is not there": ({"A": {"row": 1}}, ("row", 1, 0)),
}


@pytest.mark.parametrize("case", TAKEN)
def test_quotas_that_can_be_cut_out_are_taken(case: str) -> None:
    assert with_quotas(racks(2), **TAKEN[case]).virtual_clusters


@pytest.mark.parametrize("case", REFUSED)
def test_quotas_that_cannot_be_cut_out_are_refused(case: str) -> None:
    quotas, (cell_type, needed, available) = REFUSED[case]
    with pytest.raises(QuotaTooLarge) as refused:
        with_quotas(racks(2), **quotas)
    error = refused.value
    assert (error.cell_type, error.needed, error.available) == (cell_type, needed, available)


def test_every_level_that_is_short_by_itself_is_named() -> None:
    made = replace(racks(2), quotas_may_exceed=True)
    short = shortages(with_quotas(made, A={"rack": 3}, B={"row": 1}))
    assert [(one.cell_type, one.needed, one.available) for one in short] == [("row", 1, 0), ("rack", 3, 2)]


def test_nodes_of_two_shapes_share_the_quota_of_their_leaf_type() -> None:
    made = Cluster((*machines(2), *machines(1, "small", 4)), ())
    assert with_quotas(made, A={"node": 1, "A100": 8}, B={"small": 1}).virtual_clusters
    with pytest.raises(QuotaTooLarge) as refused:
        with_quotas(made, A={"node": 1, "A100": 9}, B={"small": 1})
    assert (refused.value.cell_type, refused.value.needed, refused.value.available) == ("A100", 21, 20)
    with pytest.raises(QuotaTooLarge) as refused:
        with_quotas(made, B={"small": 2})
    assert (refused.value.cell_type, refused.value.needed, refused.value.available) == ("small", 2, 1)


def test_a_pinned_cell_breaks_the_cells_it_lies_in() -> None:
    made = replace(
        racks(2), pinned_cells=(PinnedCell("a", "node", "node0"), PinnedCell("b", "switch", "node2", first=2))
    )
    assert with_quotas(made, A={"rack": 2}).virtual_clusters
    owner = VirtualCluster("A", (QuotaLine("rack", 1),), ("a", "b"))
    with pytest.raises(QuotaTooLarge) as refused:
        replace(made, virtual_clusters=(owner,))
    assert (refused.value.cell_type, refused.value.needed, refused.value.available) == ("rack", 1, 0)
    owner = VirtualCluster("A", (QuotaLine("node", 2), QuotaLine("socket", 1), QuotaLine("switch", 1)), ("a", "b"))
    assert replace(made, virtual_clusters=(owner,)).virtual_clusters
    with pytest.raises(QuotaTooLarge) as refused:
        replace(made, virtual_clusters=(replace(owner, quota=(*owner.quota, QuotaLine("A100", 1))),))
    assert (refused.value.cell_type, refused.value.needed, refused.value.available) == ("A100", 23, 22)


def test_a_chain_is_named_where_a_type_lies_in_several() -> None:
    own = tuple(replace(one, chain="other") for one in machines(1, "box"))
    made = Cluster((*machines(1), *own), ())
    with pytest.raises(ClusterError, match="A100 and other have such cells"):
        with_quotas(made, A={"A100": 1})
    lines = (QuotaLine("A100", 8, "A100"), QuotaLine("A100", 8, "other"))
    assert replace(made, virtual_clusters=(VirtualCluster("A", lines),)).virtual_clusters


quotas_of_a_rack = st.dictionaries(st.sampled_from(["A100", "switch", "socket", "node", "rack"]), st.integers(0, 6))


def cut(free: dict[str, int], cell_type: str) -> bool:
    """Take one cell, splitting the smallest larger one where there is none (what buddy allocation does)."""
    if free[cell_type]:
        free[cell_type] -= 1
        return True
    above = ABOVE.get(cell_type)
    if above is None or not cut(free, above):
        return False
    free[cell_type] += RATIOS[cell_type] - 1
    return True


@settings(max_examples=200)
@given(quotas_of_a_rack, quotas_of_a_rack)
def test_quotas_are_taken_exactly_where_they_can_be_cut_out(first: dict[str, int], second: dict[str, int]) -> None:
    free = {"A100": 0, "switch": 0, "socket": 0, "node": 0, "rack": 2}
    wanted = {name: first.get(name, 0) + second.get(name, 0) for name in free}
    can = all(cut(free, name) for name in ("rack", "node", "socket", "switch", "A100") for _ in range(wanted[name]))
    made = replace(racks(2), quotas_may_exceed=True)
    assert (not shortages(with_quotas(made, A=first, B=second))) == can


TWO = machines(2)
CONTRADICTIONS = {
    "a shape that does not match": lambda: Cluster(TWO, (), cell_types=(CellType("node", "A100", 4, True),)),
    "a type made of itself": lambda: Cluster((), (), cell_types=(CellType("a", "b", 1), CellType("b", "a", 1))),
    "a type without children": lambda: Cluster((), (), cell_types=(CellType("a", "b", 0),)),
    "two types of one name": lambda: Cluster((), (), cell_types=(CellType("a", "b", 1), CellType("a", "c", 1))),
    "a rack of an unknown type": lambda: Cluster(TWO, (), upper_cells=(UpperCell("r", "rack", ("node0",)),)),
    "a rack with an unknown child": lambda: replace(racks(1), upper_cells=(UpperCell("r", "rack", ("x", "y")),)),
    "a rack with a child too few": lambda: replace(racks(1), upper_cells=(UpperCell("r", "rack", ("node0",)),)),
    "a rack around itself": lambda: replace(racks(1), upper_cells=(UpperCell("r", "rack", ("r", "node0")),)),
    "a node in two racks": lambda: replace(
        racks(1), upper_cells=tuple(UpperCell(one, "rack", ("node0", "node1")) for one in ("r", "s"))
    ),
    "a rack over two chains": lambda: replace(
        racks(1), nodes=(replace(racks(1).nodes[0], chain="other"), racks(1).nodes[1])
    ),
    "a rack with a node's id": lambda: replace(racks(1), upper_cells=(UpperCell("node0", "rack", ("node0", "node1")),)),
    "a pinned cell nowhere": lambda: replace(racks(1), pinned_cells=(PinnedCell("p", "node", "x"),)),
    "a pinned cell of another type": lambda: replace(racks(1), pinned_cells=(PinnedCell("p", "node", "r0"),)),
    "a pinned cell that a node has not": lambda: replace(racks(1), pinned_cells=(PinnedCell("p", "box", "node0"),)),
    "a pinned cell across two": lambda: replace(racks(1), pinned_cells=(PinnedCell("p", "switch", "node0", 1),)),
    "two pinned cells of one name": lambda: replace(
        racks(1), pinned_cells=(PinnedCell("p", "node", "node0"), PinnedCell("p", "node", "node1"))
    ),
    "a pinned cell that is not there": lambda: Cluster(TWO, (VirtualCluster("A", (), ("p",)),)),
    "a pinned cell listed twice": lambda: replace(
        racks(1),
        pinned_cells=(PinnedCell("p", "node", "node0"),),
        virtual_clusters=(VirtualCluster("A", (), ("p",)), VirtualCluster("B", (), ("p",))),
    ),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_cells_that_contradict_themselves_are_refused(case: str) -> None:
    with pytest.raises(ClusterError):
        CONTRADICTIONS[case]()
