"""A HiveD-style configuration becomes a cluster, and a cluster becomes one again; what is wrong is said at once."""

import json
from copy import deepcopy
from typing import Any

import pytest
import yaml

from scheduling import CellType, Cluster, Node, PinnedCell, QuotaLine, UpperCell, VirtualCluster
from scheduling.config.faults import ConfigError
from scheduling.config.reading import machine, read
from scheduling.config.writing import write
from tests.support.run.facts import hived_cases, hived_streams
from tests.unit.scheduling.builders import node

CASES = hived_cases()["configs"]
STREAMS = hived_streams()["configs"]
SOUND = {name: one for name, one in (CASES | STREAMS).items() if name != "design-invalid-assignment"}

# The two clusters of the lab, in the form of its text.
LAB = """
physicalCluster:
  skuTypes:
    GPU: {gpu: 1, cpu: 2, memory: 4096Mi}
  cellTypes:
    GPU-NODE: {childCellType: GPU, childCellNumber: 1, isNodeLevel: true}
    GPU-POOL: {childCellType: GPU-NODE, childCellNumber: 2}
  physicalCells:
  - cellType: GPU-POOL
    cellChildren:
    - cellAddress: carol
    - cellAddress: dan
virtualClusters:
  default:
    virtualCells: [{cellType: GPU-POOL.GPU-NODE, cellNumber: 1}]
  vc1:
    virtualCells: [{cellType: GPU-POOL.GPU-NODE, cellNumber: 1}]
"""


def small() -> dict[str, Any]:
    """One rack of two nodes of 4 GPUs in pairs."""
    return {
        "physicalCluster": {
            "cellTypes": {
                "pair": {"childCellType": "GPU", "childCellNumber": 2},
                "node": {"childCellType": "pair", "childCellNumber": 2, "isNodeLevel": True},
                "rack": {"childCellType": "node", "childCellNumber": 2},
            },
            "physicalCells": [
                {"cellType": "rack", "cellChildren": [{"cellAddress": "n0"}, {"cellAddress": "n1"}]},
            ],
        },
        "virtualClusters": {"vision": {"virtualCells": [{"cellType": "rack.node", "cellNumber": 1}]}},
    }


def faults_of(document: Any) -> dict[str, str]:
    with pytest.raises(ConfigError) as refused:
        read(document)
    return {fault.path: fault.problem for fault in refused.value.faults}


def test_the_labs_cluster_has_its_two_nodes_with_the_share_of_their_sku() -> None:
    made = read(yaml.safe_load(LAB))
    assert [(one.id, one.cpu_milli, one.memory_mb, len(one.leaves)) for one in made.nodes] == [
        ("carol", 2000, 4096, 1),
        ("dan", 2000, 4096, 1),
    ]
    assert made.upper_cells == (UpperCell("GPU-POOL/0", "GPU-POOL", ("carol", "dan")),)
    assert made.virtual_clusters[1] == VirtualCluster("vc1", (QuotaLine("GPU-NODE", 1, "GPU-POOL"),))


def test_cells_without_an_address_are_numbered_by_their_place() -> None:
    made = read(CASES["design"])
    addresses = [one.address for one in made.upper_cells if one.address.startswith("4-DGX2")]
    assert addresses == [f"4-DGX2-V100-NODE/{one}" for one in ("7", "7/14", "7/15", "8", "8/16", "8/17")]
    plain = next(one for one in made.nodes if one.id == "0.0.1.0")
    assert [leaf.index for leaf in plain.leaves] == list(range(16))


def test_leaves_stand_in_the_order_of_the_nodes_tree_with_the_addresses_they_are_given() -> None:
    made = read(CASES["design"])
    given = next(one for one in made.nodes if one.id == "1.0.0.0")
    assert [leaf.index for leaf in given.leaves] == [1, 3, 4, 7, 0, 2, 6, 5]


def test_a_machine_in_two_chains_is_two_nodes() -> None:
    made = read(CASES["design"])
    both = [one for one in made.nodes if machine(one) == "1.0.0.2"]
    assert [(one.id, one.chain, [leaf.index for leaf in one.leaves]) for one in both] == [
        ("1.0.0.2", "3-DGX1-P100-NODE", list(range(8))),
        ("1.0.0.2@CT1-NODE", "CT1-NODE", [8, 9]),
    ]


def test_pinned_cells_lie_at_any_depth() -> None:
    made = read(CASES["design"])
    assert made.pinned_cells == (
        PinnedCell("VC1-YQW-CT1", "CT1", "1.0.0.2@CT1-NODE", 0),
        PinnedCell("VC1-YQW-DGX2", "2-DGX2-V100-NODE", "4-DGX2-V100-NODE/7/14"),
        PinnedCell("VC1-YQW-IB-DGX2", "2-IB-DGX2-V100-NODE", "2-IB-DGX2-V100-NODE/9"),
    )


def test_whether_a_node_takes_tasks_without_gpus_is_read_and_written_where_it_is_said() -> None:
    document = small()
    children = document["physicalCluster"]["physicalCells"][0]["cellChildren"]
    children[0]["cpuTasks"] = False
    made = read(document)
    assert {one.id: one.cpu_tasks for one in made.nodes} == {"n0": False, "n1": None}
    written = write(made)["physicalCluster"]["physicalCells"][0]["cellChildren"]
    assert [one.get("cpuTasks") for one in written] == [False, None]
    assert read(write(made)) == made


def test_servers_without_gpus_are_read_and_written_with_whether_they_take_tasks_without_gpus() -> None:
    document = small()
    document["physicalCluster"]["cpuNodes"] = [
        {"cellAddress": "c0", "cpuTasks": False},
        {"cellAddress": "c1", "cpuTasks": True},
    ]
    made = read(document)
    assert [(one.id, one.leaves, one.cpu_tasks) for one in made.nodes[:2]] == [("c0", (), False), ("c1", (), True)]
    assert write(made)["physicalCluster"]["cpuNodes"] == document["physicalCluster"]["cpuNodes"]
    assert read(write(made)) == made


def test_the_right_to_the_host_network_is_read_and_written_where_it_is_said() -> None:
    document = small()
    document["virtualClusters"]["vision"]["hostNetwork"] = True
    document["virtualClusters"]["unsaid"] = {}
    made = read(document)
    assert {one.id: one.host_network for one in made.virtual_clusters} == {"vision": True, "unsaid": None}
    assert read(write(made)) == made


@pytest.mark.parametrize("name", SOUND)
def test_what_was_read_is_written_so_that_it_reads_back_as_equal(name: str) -> None:
    made = read(SOUND[name])
    assert read(json.loads(json.dumps(write(made)))) == made


def test_skus_are_written_too() -> None:
    made = read(yaml.safe_load(LAB))
    written = write(made)
    assert written["physicalCluster"]["skuTypes"] == {"GPU": {"gpu": 1, "cpu": 2, "memory": "4096Mi"}}
    assert read(yaml.safe_load(yaml.safe_dump(written))) == made


def test_nodes_of_several_shapes_under_one_sku_are_written_as_one_chain() -> None:
    made = Cluster(
        (node("big", 8), node("small", 4), node("cpu", 0)),
        (VirtualCluster("vision", (QuotaLine("A100", 9),)), VirtualCluster("speech")),
    )
    back = read(write(made))
    assert [(one.id, one.chain, one.shape, len(one.leaves)) for one in back.nodes] == [
        ("big", "A100", "A100-node8", 8),
        ("small", "A100", "A100-node4", 4),
    ]
    assert back.virtual_clusters == (
        VirtualCluster("vision", (QuotaLine("A100", 9, "A100"),)),
        VirtualCluster("speech"),
    )
    assert read(write(back)) == back


def test_a_configuration_that_asks_for_more_than_there_is_names_level_need_and_what_is_there() -> None:
    assert faults_of(CASES["design-invalid-assignment"]) == {
        "virtualClusters": "the quotas need 3 cells of type CT1-NODE in the chain CT1-NODE, 2 are there"
    }


def edited(change: Any) -> dict[str, Any]:
    document = small()
    change(document["physicalCluster"], document["virtualClusters"])
    return document


def _pin(cell: dict[str, Any], name: str) -> dict[str, Any]:
    cell["pinnedCellId"] = name
    return cell


BAD = {
    "unknown type of a top cell": (
        lambda p, v: p["physicalCells"][0].update(cellType="row"),
        "physicalCluster.physicalCells[0].cellType",
        "row is no cell type of this cluster",
    ),
    "path that does not exist in the type tree": (
        lambda p, v: v["vision"]["virtualCells"][0].update(cellType="rack.pair"),
        "virtualClusters.vision.virtualCells[0].cellType",
        "rack.pair: there is no such path through the cell types; "
        "there are rack, rack.node, rack.node.pair, rack.node.pair.GPU",
    ),
    "chain that is not there": (
        lambda p, v: v["vision"]["virtualCells"][0].update(cellType="node"),
        "virtualClusters.vision.virtualCells[0].cellType",
        "node: no cell of type node is among the physicalCells; there are rack",
    ),
    "negative number of cells": (
        lambda p, v: v["vision"]["virtualCells"][0].update(cellNumber=-1),
        "virtualClusters.vision.virtualCells[0].cellNumber",
        "must be at least 0 and below 2147483648, not -1",
    ),
    "unknown pinned cell": (
        lambda p, v: v["vision"].update(pinnedCells=[{"pinnedCellId": "mine"}]),
        "virtualClusters.vision.pinnedCells[0].pinnedCellId",
        "no physical cell is called mine",
    ),
    "tasks without GPUs on what is no node": (
        lambda p, v: p["physicalCells"][0].update(cpuTasks=True),
        "physicalCluster.physicalCells[0].cpuTasks",
        "is for a node; rack is none",
    ),
    "tasks without GPUs by a word": (
        lambda p, v: p["physicalCells"][0]["cellChildren"][0].update(cpuTasks="no"),
        "physicalCluster.physicalCells[0].cellChildren[0].cpuTasks",
        "must be true or false, not text ('no')",
    ),
    "a server without GPUs that is a cell, too": (
        lambda p, v: p.update(cpuNodes=[{"cellAddress": "n1", "cpuTasks": True}]),
        "physicalCluster.cpuNodes[0].cellAddress",
        "n1 is a node of the chain rack already",
    ),
    "a server without GPUs that is listed twice": (
        lambda p, v: p.update(cpuNodes=[{"cellAddress": "c0", "cpuTasks": one} for one in (True, False)]),
        "physicalCluster.cpuNodes[1].cellAddress",
        "c0 is listed twice",
    ),
    "a server without GPUs that has no name": (
        lambda p, v: p.update(cpuNodes=[{"cpuTasks": True}]),
        "physicalCluster.cpuNodes[0].cellAddress",
        "must be text, not nothing",
    ),
    "a server without GPUs of which nothing is said": (
        lambda p, v: p.update(cpuNodes=[{"cellAddress": "c0"}]),
        "physicalCluster.cpuNodes[0].cpuTasks",
        "must be true or false, not nothing",
    ),
    "a server without GPUs with cells": (
        lambda p, v: p.update(cpuNodes=[{"cellAddress": "c0", "cpuTasks": True, "cellType": "node"}]),
        "physicalCluster.cpuNodes[0].cellType",
        "is not known here; known are cellAddress, cpuTasks",
    ),
    "servers without GPUs by name": (
        lambda p, v: p.update(cpuNodes={"c0": True}),
        "physicalCluster.cpuNodes",
        "must be a list, not a mapping",
    ),
    "host network by a word": (
        lambda p, v: v["vision"].update(hostNetwork="yes"),
        "virtualClusters.vision.hostNetwork",
        "must be true or false, not text ('yes')",
    ),
    "duplicate pinned cell": (
        lambda p, v: [_pin(one, "mine") for one in p["physicalCells"][0]["cellChildren"]],
        "physicalCluster.physicalCells[0].cellChildren[1].pinnedCellId",
        "another cell is called mine already",
    ),
    "pinned cell of two virtual clusters": (
        lambda p, v: (
            _pin(p["physicalCells"][0]["cellChildren"][0], "mine"),
            v.update(
                vision={"pinnedCells": [{"pinnedCellId": "mine"}]}, speech={"pinnedCells": [{"pinnedCellId": "mine"}]}
            ),
        ),
        "virtualClusters.speech.pinnedCells",
        "mine belongs to vision already",
    ),
    "pinned cells one in the other": (
        lambda p, v: (
            _pin(p["physicalCells"][0], "all"),
            _pin(p["physicalCells"][0]["cellChildren"][0], "half"),
            v["vision"].update(virtualCells=[], pinnedCells=[{"pinnedCellId": "all"}, {"pinnedCellId": "half"}]),
        ),
        "physicalCluster.physicalCells",
        "all has leaf cells in common with the pinned cell half",
    ),
    "wrong number of children": (
        lambda p, v: p["physicalCells"][0]["cellChildren"].append({"cellAddress": "n2"}),
        "physicalCluster.physicalCells[0].cellChildren",
        "has 3 cells; a rack is made of 2",
    ),
    "one node twice": (
        lambda p, v: p["physicalCells"][0]["cellChildren"][1].update(cellAddress="n0"),
        "physicalCluster.physicalCells[0].cellChildren[1]",
        "n0 is a node of the chain rack already",
    ),
    "type made of itself": (
        lambda p, v: p["cellTypes"]["pair"].update(childCellType="rack"),
        "physicalCluster.cellTypes.pair",
        "is made of itself: pair > rack > node > pair",
    ),
    "no node level": (
        lambda p, v: p["cellTypes"]["node"].pop("isNodeLevel"),
        "physicalCluster.physicalCells[0].cellType",
        "neither rack nor a type below it is a node (isNodeLevel)",
    ),
    "two node levels": (
        lambda p, v: p["cellTypes"]["rack"].update(isNodeLevel=True),
        "physicalCluster.cellTypes.rack",
        "has two levels that are a node: rack, node",
    ),
    "no children": (
        lambda p, v: p["cellTypes"]["pair"].update(childCellNumber=0),
        "physicalCluster.cellTypes.pair.childCellNumber",
        "must be at least 1 and below 2147483648, not 0",
    ),
    "more leaves than anybody has": (
        lambda p, v: p["cellTypes"]["pair"].update(childCellNumber=10**9),
        "physicalCluster.physicalCells[0].cellType",
        "makes 4000000000 leaf cells in all; at most 200000 can be read",
    ),
    "a misspelt key": (
        lambda p, v: p["cellTypes"]["pair"].update(childCelNumber=2),
        "physicalCluster.cellTypes.pair.childCelNumber",
        "is not known here; known are childCellType, childCellNumber, isNodeLevel",
    ),
    "a leaf's address that is no number": (
        lambda p, v: p["physicalCells"][0]["cellChildren"][0].update(
            cellChildren=[{"cellChildren": [{"cellAddress": "first"}, {}]}, {}]
        ),
        "physicalCluster.physicalCells[0].cellChildren[0].cellChildren[0].cellChildren[0].cellAddress",
        "of a leaf cell must be a GPU's number, not 'first'",
    ),
    "two leaves of one address": (
        lambda p, v: p["physicalCells"][0]["cellChildren"][0].update(
            cellChildren=[{"cellChildren": [{"cellAddress": 3}, {}]}, {}]
        ),
        "physicalCluster.physicalCells[0].cellChildren[0]",
        "two leaf cells have the address 3",
    ),
    "a leaf with children": (
        lambda p, v: p["physicalCells"][0]["cellChildren"][0].update(
            cellChildren=[{"cellChildren": [{"cellChildren": [{}]}, {}]}, {}]
        ),
        "physicalCluster.physicalCells[0].cellChildren[0].cellChildren[0].cellChildren[0].cellChildren",
        "GPU is a leaf cell, which has no children",
    ),
    "a SKU that is missing": (
        lambda p, v: p.update(skuTypes={"TPU": {"gpu": 1, "cpu": 1, "memory": "1Gi"}}),
        "physicalCluster.skuTypes.GPU",
        "is missing: a cell type is made of it",
    ),
    "memory without a unit": (
        lambda p, v: p.update(skuTypes={"GPU": {"gpu": 1, "cpu": "500m", "memory": 4096}}),
        "physicalCluster.skuTypes.GPU.memory",
        "must be an amount of at least 1Mi, such as 8192Mi or 8Gi, not '4096'",
    ),
    "a SKU with two GPUs": (
        lambda p, v: p.update(skuTypes={"GPU": {"gpu": 2, "cpu": 1.5, "memory": "8Gi"}}),
        "physicalCluster.skuTypes.GPU.gpu",
        "must be 1, or 0 of a server without GPUs: a leaf cell is one GPU",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_refused_with_its_path(case: str) -> None:
    change, path, problem = BAD[case]
    assert faults_of(edited(change))[path] == problem


def test_every_fault_is_told_at_once() -> None:
    document = small()
    document["physicalCluster"]["physicalCells"].append({"cellType": "row"})
    document["virtualClusters"]["vision"] = {"virtualCells": [{"cellType": "row"}], "pinnedCells": "mine"}
    assert set(faults_of(document)) == {
        "physicalCluster.physicalCells[1].cellType",
        "virtualClusters.vision.virtualCells[0].cellType",
        "virtualClusters.vision.virtualCells[0].cellNumber",
        "virtualClusters.vision.pinnedCells",
    }


def _nested(depth: int) -> Any:
    made: Any = []
    for _ in range(depth):
        made = [made]
    return made


def outcome(document: Any) -> Cluster | list[str]:
    try:
        return read(document)
    except ConfigError as error:
        return [str(fault) for fault in error.faults]


HOSTILE: list[Any] = [None, [], "text", 7, {1: 2}, {"physicalCluster": []}, {"physicalCluster": {"cellTypes": [1]}}]
HOSTILE += [_nested(100_000), {"physicalCluster": {"cellTypes": {"a": {"childCellType": 10**5000}}}}]


@pytest.mark.parametrize("junk", [*HOSTILE, True, 1.5, "", {"a": {}}, [[]]], ids=range(len(HOSTILE) + 5))
@pytest.mark.parametrize(
    "at", [(), *[(0,), (0, "cellTypes"), (0, "physicalCells"), (0, "cpuNodes"), (1,), (1, "vision")]], ids=str
)
def test_junk_is_refused_or_says_nothing_but_never_crashes(junk: Any, at: tuple[Any, ...]) -> None:
    document: Any = deepcopy(small())
    if not at:
        document = junk
    else:
        top = ("physicalCluster", "virtualClusters")[at[0]]
        (document.update({top: junk}) if len(at) == 1 else document[top].update({at[1]: junk}))
    found = outcome(document)
    assert isinstance(found, Cluster) or (found and all(len(one) < 2000 for one in found))


def test_types_of_endless_depth_are_refused() -> None:
    types = {f"t{one}": {"childCellType": f"t{one + 1}", "childCellNumber": 1} for one in range(3000)}
    faults = faults_of({"physicalCluster": {"cellTypes": types}})
    assert faults["physicalCluster.cellTypes.t0"] == "has more than 32 levels of cells"


def test_a_cluster_of_cells_is_written_from_its_own_words() -> None:
    leaves = node("n0", 2).leaves
    made = Cluster(
        (Node("n0", 3000, 64, leaves, shape="box", chain="boxes"),),
        (VirtualCluster("vision", (QuotaLine("A100", 1),), ("mine",)),),
        cell_types=(CellType("box", "A100", 2, True),),
        pinned_cells=(PinnedCell("mine", "A100", "n0", 1),),
    )
    assert write(made) == {
        "physicalCluster": {
            "skuTypes": {"A100": {"gpu": 1, "cpu": "1500m", "memory": "32Mi"}},
            "cellTypes": {"box": {"childCellType": "A100", "childCellNumber": 2, "isNodeLevel": True}},
            "physicalCells": [
                {
                    "cellType": "box",
                    "chain": "boxes",
                    "cellAddress": "n0",
                    "cellChildren": [{"cellAddress": "0"}, {"cellAddress": "1", "pinnedCellId": "mine"}],
                }
            ],
        },
        "virtualClusters": {
            "vision": {
                "virtualCells": [{"cellType": "boxes.A100", "cellNumber": 1}],
                "pinnedCells": [{"pinnedCellId": "mine"}],
            }
        },
    }


@pytest.mark.parametrize(
    ("cpu", "memory", "milli", "megabytes"),
    [
        (".5", "1.5Gi", 500, 1536),
        ("1k", "1e9", 1_000_000, 953),
        ("5000000u", "128974848000m", 5000, 123),
        ("1e-1", "1E", 100, 953_674_316_406),
        (1e1, "2Ei", 10_000, 2 << 40),
    ],
)
def test_amounts_are_kubernetes_s(cpu: Any, memory: str, milli: int, megabytes: int) -> None:
    document = small()
    document["physicalCluster"]["skuTypes"] = {"GPU": {"gpu": 1, "cpu": cpu, "memory": memory}}
    one = read(document).nodes[0]
    assert (one.cpu_milli, one.memory_mb) == (4 * milli, 4 * megabytes)


@pytest.mark.parametrize("first", ["rack", "cpu-rack"])
def test_a_machine_in_cells_with_and_without_gpus_is_one_node_with_the_cpu_of_both(first: str) -> None:
    document = small()
    physical = document["physicalCluster"]
    physical["skuTypes"] = {
        "GPU": {"gpu": 1, "cpu": 4, "memory": "8Gi"}, "CPU": {"gpu": 0, "cpu": 1, "memory": "1Gi"},
    }  # fmt: skip
    physical["cellTypes"] |= {
        "cpu-node": {"childCellType": "CPU", "childCellNumber": 12, "isNodeLevel": True},
        "cpu-rack": {"childCellType": "cpu-node", "childCellNumber": 2},
    }
    physical["physicalCells"].append({**physical["physicalCells"][0], "cellType": "cpu-rack"})
    physical["physicalCells"].sort(key=lambda cell: cell["cellType"] != first)
    document["virtualClusters"]["cpu"] = {"virtualCells": [{"cellType": "cpu-rack.cpu-node", "cellNumber": 2}]}
    made = read(document)
    assert [(one.id, one.cpu_milli, one.memory_mb, len(one.leaves), one.cpu_tasks) for one in made.nodes] == [
        (name, 28_000, 44 * 1024, 4, True) for name in ("n0", "n1")
    ]
    assert {vc.id: [line.count for line in vc.quota] for vc in made.virtual_clusters} == {"vision": [1], "cpu": []}
    assert read(write(made)).nodes == made.nodes
