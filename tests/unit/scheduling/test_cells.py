"""A cluster is taken only when it makes sense and every quota can be carved out of it."""

import pytest

from scheduling import Cluster, ClusterError, Leaf, Node, NodeState, QuotaLine, QuotaTooLarge, VirtualCluster
from tests.unit.scheduling.builders import cluster, node


def test_quotas_that_use_every_gpu_are_taken() -> None:
    made = cluster(node("gpu01"), node("gpu02"), vision=5, speech=3)
    assert [vc.owned("A100") for vc in made.virtual_clusters] == [5, 3]


def test_quotas_beyond_the_hardware_are_refused_with_the_level_the_need_and_what_is_there() -> None:
    with pytest.raises(QuotaTooLarge) as refused:
        cluster(node("gpu01"), node("gpu02"), vision=5, speech=4)
    error = refused.value
    assert (error.cell_type, error.needed, error.available) == ("A100", 9, 8)


def test_a_quota_of_a_sku_that_no_node_has_is_refused() -> None:
    with pytest.raises(QuotaTooLarge) as refused:
        cluster(node("gpu01"), vision={"H100": 1})
    assert (refused.value.cell_type, refused.value.needed, refused.value.available) == ("H100", 1, 0)


def test_an_outage_revokes_no_quota() -> None:
    made = cluster(node("gpu01", state=NodeState.DOWN), node("gpu02", sick=(0, 1)), vision=8)
    assert made.virtual_clusters[0].owned("A100") == 8


LEAF = Leaf("a:0", "a", 0, "A100")
NONSENSE = {
    "two nodes of one id": ((Node("a", 1, 1), Node("a", 1, 1)), ()),
    "two virtual clusters of one id": ((), (VirtualCluster("v"), VirtualCluster("v"))),
    "two leaf cells of one id": ((Node("a", 1, 1, (LEAF, Leaf("a:0", "a", 1, "A100"))),), ()),
    "two leaf cells of one index": ((Node("a", 1, 1, (LEAF, Leaf("a:1", "a", 0, "A100"))),), ()),
    "a leaf cell of another node": ((Node("b", 1, 1, (LEAF,)),), ()),
    "leaf cells of two types on one node": ((Node("a", 1, 1, (LEAF, Leaf("a:1", "a", 1, "H100"))),), ()),
    "two quota lines of one type": (
        (Node("a", 1, 1, (LEAF,)),),
        (VirtualCluster("v", (QuotaLine("A100", 0), QuotaLine("A100", 1))),),
    ),
    "a negative quota": ((), (VirtualCluster("v", (QuotaLine("A100", -1),)),)),
    "a slash in a cell type": ((), (VirtualCluster("v", (QuotaLine("A/100", 0),)),)),
}


@pytest.mark.parametrize("case", NONSENSE)
def test_nonsense_is_refused(case: str) -> None:
    nodes, virtual_clusters = NONSENSE[case]
    with pytest.raises(ClusterError):
        Cluster(nodes, virtual_clusters)
