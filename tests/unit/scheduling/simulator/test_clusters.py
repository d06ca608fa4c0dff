"""Clusters of the simulator: from counts of nodes, and the hardware of each way of sharing."""

from collections import Counter

import pytest

from scheduling import Cluster, ClusterError
from scheduling.simulator.clusters import (
    PLENTY,
    POOL,
    alone,
    counted_in_gpus,
    leaves_in,
    of_configuration,
    of_equal_nodes,
    undivided,
)
from tests.unit.scheduling.simulator.traces import equal_nodes

RACKS: dict[str, dict[str, object]] = {
    "physicalCluster": {
        "cellTypes": {
            "quad": {"childCellType": "A100", "childCellNumber": 4},
            "node": {"childCellType": "quad", "childCellNumber": 2, "isNodeLevel": True},
            "rack": {"childCellType": "node", "childCellNumber": 2},
        },
        "physicalCells": [
            {"cellType": "rack", "cellChildren": [{"cellAddress": f"n{rack}{node}"} for node in range(2)]}
            for rack in range(3)
        ],
    },
    "virtualClusters": {
        "vision": {"virtualCells": [{"cellType": "rack", "cellNumber": 1}, {"cellType": "rack.node", "cellNumber": 1}]},
        "speech": {
            "virtualCells": [
                {"cellType": "rack.node.quad", "cellNumber": 1},
                {"cellType": "rack.node.quad.A100", "cellNumber": 12},
            ]
        },
    },
}


def machines(cluster: Cluster) -> Counter[tuple[str, int]]:
    """How many nodes there are of each shape and number of GPUs."""
    return Counter((node.shape, len(node.leaves)) for node in cluster.nodes)


def the_vc(cluster: Cluster, name: str) -> Cluster:
    """The hardware of one virtual cluster alone."""
    return alone(cluster, next(vc for vc in cluster.virtual_clusters if vc.id == name))


def quota(cluster: Cluster) -> dict[str, dict[str, int]]:
    """Cells by type that each virtual cluster owns."""
    return {vc.id: {line.cell_type: line.count for line in vc.quota} for vc in cluster.virtual_clusters}


def test_counts_of_nodes_become_nodes_of_which_each_team_owns_some() -> None:
    made = equal_nodes(12, 8, vision=6, speech=4)
    assert machines(made) == {("node", 8): 12}
    assert quota(made) == {"vision": {"node": 6}, "speech": {"node": 4}}
    assert leaves_in(made, "node") == 8


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"nodes": 0}, "nodes: 0 is no whole number of at least 1"),
        ({"nodes": None}, "nodes: None is no whole number of at least 1"),
        ({"gpus_per_node": 2.5}, "gpus_per_node: 2.5 is no whole number of at least 1"),
        ({"nodes": 10**9}, "nodes: 1000000000 nodes of 8 GPUs are more than 1000000 GPUs"),
        ({"vc_nodes": []}, "vc_nodes: is no object of numbers of nodes by virtual cluster"),
        ({"vc_nodes": {}}, "vc_nodes: is no object of numbers of nodes by virtual cluster"),
        ({"vc_nodes": {"vision": -1}}, "vc_nodes.vision: -1 is no whole number of at least 0"),
        ({"vc_nodes": {"vision": True}}, "vc_nodes.vision: True is no whole number of at least 0"),
        ({"vc_nodes": {"vision": 3, "speech": 2}}, "vc_nodes: together own 5 nodes; nodes says 4"),
    ],
)
def test_counts_that_make_no_cluster_are_refused_with_the_key_and_the_number(
    change: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ClusterError) as refused:
        of_equal_nodes({"nodes": 4, "gpus_per_node": 8, "vc_nodes": {"vision": 2}} | change)
    assert str(refused.value) == sentence


def test_a_team_alone_has_its_nodes_and_nothing_else() -> None:
    made = the_vc(equal_nodes(12, 8, vision=6, speech=4), "speech")
    assert machines(made) == {("node", 8): 4}
    assert quota(made) == {"speech": {"node": 4}}


def test_a_rack_alone_has_its_nodes_and_a_node_stands_by_itself() -> None:
    made = the_vc(of_configuration(RACKS), "vision")
    assert machines(made) == {("node", 8): 3}
    (rack,) = made.upper_cells
    assert (rack.cell_type, len(rack.children)) == ("rack", 2)
    assert quota(made) == {"vision": {"rack": 1, "node": 1}}


def test_part_of_a_node_alone_is_a_small_machine_and_single_gpus_fill_machines() -> None:
    made = the_vc(of_configuration(RACKS), "speech")
    assert machines(made) == {("quad alone", 4): 1, ("node", 8): 1, ("", 4): 1}
    assert quota(made) == {"speech": {"quad alone": 1, "A100": 12}}


def test_quotas_counted_in_gpus_are_as_many_gpus() -> None:
    assert quota(counted_in_gpus(of_configuration(RACKS))) == {"vision": {"A100": 24}, "speech": {"A100": 16}}


def test_one_pool_owns_every_gpu() -> None:
    assert quota(undivided(of_configuration(RACKS))) == {POOL: {"A100": 48}}


def test_cpu_and_memory_that_a_configuration_does_not_give_are_not_limited() -> None:
    assert {(node.cpu_milli, node.memory_mb) for node in of_configuration(RACKS).nodes} == {(PLENTY, PLENTY)}


def test_servers_without_gpus_are_not_limited_and_a_team_alone_has_them_too() -> None:
    skus = {"A100": {"gpu": 1, "cpu": 6, "memory": "64Gi"}}
    cpu_nodes = [{"cellAddress": "cpu01", "cpuTasks": True}]
    document = RACKS | {"physicalCluster": {**RACKS["physicalCluster"], "skuTypes": skus, "cpuNodes": cpu_nodes}}
    made = of_configuration(document)
    for one in (made, the_vc(made, "vision")):
        assert {node.id for node in one.nodes if node.cpu_milli == PLENTY} == {"cpu01"}


def test_a_team_alone_has_its_share_of_a_nodes_cpu() -> None:
    skus = {"A100": {"gpu": 1, "cpu": 6, "memory": "64Gi"}}
    document = RACKS | {"physicalCluster": {**RACKS["physicalCluster"], "skuTypes": skus}}
    made = the_vc(of_configuration(document), "speech")
    assert {len(node.leaves): node.cpu_milli for node in made.nodes} == {8: 48_000, 4: 24_000}
