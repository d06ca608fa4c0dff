"""A HiveD-style configuration in and out: exactly as in the lab, all faults at once, nothing half done."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import yaml
from django.utils.translation import override

from portal.accounts.models import AuditEntry
from portal.cluster.configuration_words import FORMS
from portal.cluster.services.configuration import configuration_export, configuration_import, configuration_read
from portal.common.errors import Invalid
from portal.hardware.models import CellType, Gpu, Node, Sku
from portal.teams.models import PinnedCell, VirtualCluster
from portal.teams.selectors.engine_cluster import cluster_read
from portal.teams.selectors.shares import vc_quotas
from portal.teams.services.quotas import quota_set
from tests.integration.cluster.test_topology import grouped
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World
from tests.support.run.facts import hived_cases
from tests.support.run.spoken import configurations_written
from tests.unit.scheduling.test_config import LAB

pytestmark = pytest.mark.django_db

CASES = hived_cases()["configs"]


@pytest.fixture
def world() -> World:
    return World()


def take(document: dict[str, Any], world: World) -> None:
    configuration_import(found=configuration_read(document), now=world.now, actor="root")


def faults(document: dict[str, Any], world: World) -> dict[str, str]:
    with pytest.raises(Invalid) as refused:
        take(document, world)
    return {fault.path: fault.message for fault in refused.value.faults}


def owned() -> dict[str, dict[str, int]]:
    vcs = list(VirtualCluster.objects.all())
    quotas = vc_quotas(vcs=vcs)
    return {vc.name: quotas[vc.pk] for vc in vcs}


RACK: dict[str, Any] = {
    "physicalCluster": {
        "skuTypes": {"V100": {"gpu": 1, "cpu": 4, "memory": "8192Mi"}},
        "cellTypes": {
            "pair": {"childCellType": "V100", "childCellNumber": 2},
            "node": {"childCellType": "pair", "childCellNumber": 2, "isNodeLevel": True},
            "rack": {"childCellType": "node", "childCellNumber": 2},
        },
        "physicalCells": [
            {
                "cellType": "rack",
                "cellChildren": [
                    {"cellAddress": "gpu01", "cellChildren": [{"pinnedCellId": "corner"}, {}]},
                    {"cellAddress": "gpu02"},
                ],
            }
        ],
    },
    "virtualClusters": {
        "vision": {
            "virtualCells": [{"cellType": "rack.node.pair", "cellNumber": 1}],
            "pinnedCells": [{"pinnedCellId": "corner"}],
        },
        "audio": {"virtualCells": [{"cellType": "rack.node", "cellNumber": 1}]},
    },
}


def test_the_labs_configuration_becomes_cells_and_quotas_and_nodes_may_join_later(world: World) -> None:
    take(yaml.safe_load(LAB), world)
    assert {name: quota for name, quota in owned().items() if quota} == {"default": {"GPU": 1}, "vc1": {"GPU": 1}}
    assert {node.health for node in Node.objects.all()} == {"unknown"}
    carol = ScriptedNode("carol", gpus=1, model="Tesla K80")
    carol.report()
    (gpu,) = Gpu.objects.all()
    assert (gpu.slot, gpu.cell_type.name, gpu.usable) == (0, "GPU", True)
    assert Sku.objects.get(name="GPU").gpu_model == "Tesla K80"


def test_cells_inside_nodes_pinned_cells_and_racks_are_there_after_an_import(world: World) -> None:
    for name in ("gpu01", "gpu02"):
        ScriptedNode(name, gpus=4).report()
    take(RACK, world)
    cluster = cluster_read().cluster
    assert [(node.shape, node.chain, node.cell_type) for node in cluster.nodes] == [("node", "rack", "V100")] * 2
    assert [cell.children for cell in cluster.upper_cells] == [("gpu01", "gpu02")]
    assert [(cell.id, cell.cell_type, cell.at, cell.first) for cell in cluster.pinned_cells] == [
        ("corner", "pair", "gpu01", 0)
    ]
    assert owned() == {"vision": {"V100": 4}, "audio": {"V100": 4}}
    assert set(CellType.objects.values_list("name", flat=True)) == {"V100", "pair", "node", "rack", "A100"}


@pytest.mark.parametrize("name", ["lab", "rack", "derived"])
def test_what_is_exported_reads_back_as_the_same_cluster(world: World, name: str) -> None:
    if name == "derived":
        grouped(world, "gpu01", numa=4, rack="r1")
        grouped(world, "gpu02", numa=4, rack="r1")
        grouped(world, "gpu03", gpus=2)
        quota_set(vc=world.vc, cell_type=CellType.objects.get(name="A100"), count=2, now=world.now)
        quota_set(vc=world.vc, cell_type=CellType.objects.get(name="A100-rack2"), count=1, now=world.now)
    else:
        take(RACK if name == "rack" else yaml.safe_load(LAB), world)
    exported = configuration_export()
    take(deepcopy(exported), world)
    assert configuration_export() == exported


def test_what_a_configuration_says_of_tasks_without_gpus_counts_and_what_it_does_not_say_stays(world: World) -> None:
    open_one, shut = world.node("gpu01"), world.node("gpu02")
    take(RACK, world)
    assert [node.row.cpu_tasks for node in (open_one, shut)] == [True, True]
    said = deepcopy(RACK)
    said["physicalCluster"]["physicalCells"][0]["cellChildren"][1]["cpuTasks"] = False
    take(said, world)
    take(RACK, world)
    assert [node.row.cpu_tasks for node in (open_one, shut)] == [True, False]
    entry = AuditEntry.objects.filter(target="cluster").order_by("id")[1]
    assert [_cpu_tasks(told) for told in (entry.before, entry.after)] == [[True, True], [True, False]]


def test_servers_without_gpus_are_named_with_whether_they_take_tasks_without_gpus_and_come_back_from_an_export(
    world: World,
) -> None:
    world.node("gpu01"), world.node("gpu02")
    cpu = world.node("cpu01", gpus=0)
    take(RACK, world)
    exported = configuration_export()
    assert exported["physicalCluster"]["cpuNodes"] == [{"cellAddress": "cpu01", "cpuTasks": True}]
    shut = deepcopy(exported)
    shut["physicalCluster"]["cpuNodes"][0]["cpuTasks"] = False
    take(shut, world)
    assert configuration_export() == shut
    take(RACK, world)
    assert not cpu.row.cpu_tasks


def test_a_server_without_gpus_must_be_there_and_have_no_cells(world: World) -> None:
    world.node("gpu03")
    said = deepcopy(RACK)
    said["physicalCluster"]["cpuNodes"] = [{"cellAddress": name, "cpuTasks": False} for name in ("gpu03", "cpu09")]
    assert faults(said, world) == {
        "physicalCluster.cpuNodes.gpu03": "gpu03 has GPUs: name it under physicalCells",
        "physicalCluster.cpuNodes.cpu09": "no server is called cpu09; it can be named once it has joined",
    }
    assert not Node.objects.filter(name="cpu09").exists()


MANUAL: dict[str, Any] = {
    "physicalCluster": {
        "skuTypes": {
            "V100": {"gpu": 1, "cpu": 4, "memory": "8192Mi"},
            "CPU": {"cpu": 2, "memory": "4096Mi"},
            "BIG": {"gpu": 0, "cpu": 16, "memory": "64Gi"},
        },
        "cellTypes": {
            "V100-NODE": {"childCellType": "V100", "childCellNumber": 2, "isNodeLevel": True},
            "CPU-MACHINE": {"childCellType": "CPU", "childCellNumber": 8, "isNodeLevel": True},
            "BIG-POOL": {"childCellType": "BIG-MACHINE", "childCellNumber": 2},
            "BIG-MACHINE": {"childCellType": "BIG", "childCellNumber": 1, "isNodeLevel": True},
        },
        "physicalCells": [
            {"cellType": "V100-NODE", "cellAddress": "gpu01"},
            {"cellType": "CPU-MACHINE", "cellAddress": "cpu01"},
            {
                "cellType": "BIG-POOL",
                "cellChildren": [{"cellAddress": "big01", "cpuTasks": False}, {"cellAddress": "big02"}],
            },
        ],
    },
    "virtualClusters": {
        "vision": {
            "virtualCells": [
                {"cellType": "V100-NODE", "cellNumber": 1},
                {"cellType": "CPU-MACHINE", "cellNumber": 1},
                {"cellType": "BIG-POOL.BIG-MACHINE", "cellNumber": 2},
            ]
        }
    },
}  # fmt: skip


def test_servers_that_have_not_joined_have_the_cpu_and_memory_of_their_sku_also_without_gpus(world: World) -> None:
    take(MANUAL, world)
    nodes = {node.id: (node.cpu_milli, node.memory_mb, node.cpu_tasks) for node in cluster_read().cluster.nodes}
    assert nodes["gpu01"][:2] == (8_000, 16_384)
    columns = ("name", "cpu_milli", "memory_mb", "cpu_tasks", "shape__name")
    assert [*Node.objects.order_by("name").values_list(*columns)] == [
        ("big01", 16_000, 65_536, False, None),
        ("big02", 16_000, 65_536, True, None),
        ("cpu01", 16_000, 32_768, True, None),
        ("gpu01", 8_000, 16_384, True, "V100-NODE"),
    ]
    assert owned()["vision"] == {"V100": 2}
    world.node("cpu01", gpus=0)
    reported = Node.objects.get(name="cpu01").cpu_milli
    take(MANUAL, world)
    assert Node.objects.get(name="cpu01").cpu_milli == reported != 16_000
    twice = deepcopy(MANUAL)
    twice["physicalCluster"]["physicalCells"].append({"cellType": "CPU-MACHINE", "cellAddress": "big02"})
    assert faults(twice, world) == {"physicalCluster.physicalCells[3].cellAddress": "big02 is listed twice"}


def test_the_configuration_is_taken_out_of_openpais_services(world: World) -> None:
    services = {"cluster": {"common": {"cluster-id": "pai"}}, "hivedscheduler": {"config": yaml.safe_dump(RACK)}}
    take(services, world)
    assert owned() == {"vision": {"V100": 4}, "audio": {"V100": 4}}
    assert (
        "anchors" in faults({"hivedscheduler": {"config": "a: &a {}\nb: *a"}}, world)["hivedscheduler.config"].lower()
    )


@pytest.mark.parametrize(
    "document", [None, {}, {"physicalCluster": None, "virtualClusters": {}}, {"hivedscheduler": {"config": "# none"}}]
)
def test_a_file_that_says_nothing_takes_no_quota_away(world: World, document: Any) -> None:
    take(RACK, world)
    assert "says nothing" in faults(document, world)["physicalCluster"]
    assert owned() == {"vision": {"V100": 4}, "audio": {"V100": 4}}


def test_what_a_configuration_says_of_the_host_network_counts_and_what_it_does_not_say_stays(world: World) -> None:
    world.node("gpu01"), world.node("gpu02")
    take(RACK, world)
    made = {vc.name: vc.host_network for vc in VirtualCluster.objects.all()}
    assert made == {"vision": True} | dict.fromkeys(made.keys() - {"vision"}, False)
    said = deepcopy(RACK)
    for vc in said["virtualClusters"].values():
        vc["hostNetwork"] = False
    said["virtualClusters"]["new"] = {"hostNetwork": True}
    take(said, world)
    take(RACK, world)
    found = dict(VirtualCluster.objects.values_list("name", "host_network"))
    assert (found["vision"], found["new"]) == (False, True)
    exported = configuration_export()["virtualClusters"]
    assert (exported["vision"]["hostNetwork"], exported["new"]["hostNetwork"]) == (False, True)


def _cpu_tasks(document: Any) -> list[bool | None]:
    return [cell.get("cpuTasks") for cell in document["physicalCluster"]["physicalCells"][0]["cellChildren"]]


def test_the_reference_schedulers_own_configuration_is_taken_with_its_machine_in_two_chains_as_two_nodes(
    world: World,
) -> None:
    take(CASES["design"], world)
    parts = Node.objects.filter(name__startswith="1.0.0.2").order_by("name")
    assert [(node.name, node.slots, node.chain) for node in parts] == [
        ("1.0.0.2", list(range(8)), "3-DGX1-P100-NODE"),
        ("1.0.0.2_CT1-NODE", [8, 9], "CT1-NODE"),
    ]
    pins = {cell.id: cell.at for cell in cluster_read().cluster.pinned_cells}
    assert pins["VC1-YQW-CT1"] == "1.0.0.2_CT1-NODE"
    exported = configuration_export()
    take(deepcopy(exported), world)
    assert configuration_export() == exported


def test_of_a_machine_in_two_chains_the_greater_part_joins_and_the_lesser_is_out_of_service(world: World) -> None:
    cell = {"childCellType": "V100", "childCellNumber": 4, "isNodeLevel": True}
    types = {"big": cell, "another": {**cell, "childCellType": "T4", "childCellNumber": 1}}
    spare = [{"cellAddress": "4"}]
    cells = [
        {"cellType": "big", "cellAddress": "m"},
        {"cellType": "another", "cellAddress": "m", "cellChildren": spare},
    ]
    document = {"physicalCluster": {"cellTypes": types, "physicalCells": cells}, "virtualClusters": {}}
    take(deepcopy(document), world)
    ScriptedNode("m", gpus=5, model="Tesla V100").report()
    assert {node.name: node.health for node in Node.objects.all()} == {"m": "healthy", "m_another": "unknown"}
    assert [gpu.usable for gpu in Gpu.objects.order_by("index")] == [True] * 4 + [False]
    take(document, world)


def test_every_fault_is_told_with_its_path_and_nothing_is_changed(world: World) -> None:
    bad = deepcopy(RACK)
    bad["virtualClusters"]["audio"]["virtualCells"][0] = {"cellType": "rack.quad", "cellNumber": 1}
    bad["virtualClusters"]["other"] = {"pinnedCells": [{"pinnedCellId": "nowhere"}]}
    assert faults(bad, world).keys() == {
        "virtualClusters.audio.virtualCells[0].cellType", "virtualClusters.other.pinnedCells[0].pinnedCellId",
    }  # fmt: skip
    assert not Node.objects.exists()
    assert not CellType.objects.exists()


def test_what_is_wrong_is_told_in_the_readers_language_by_its_form_and_what_fills_it(db: None) -> None:
    cells = {"virtualCells": [{"cellType": "NOWHERE", "cellNumber": True}]}
    document = {"physicalCluster": {"cellTypes": ["x"]}, "virtualClusters": {"default": cells}}
    with override("zh-hans"), pytest.raises(Invalid) as invalid:
        configuration_read(document)
    told = {fault.path: fault.message for fault in invalid.value.faults}
    assert told["physicalCluster.cellTypes"] == "必须是映射，而不是列表"
    where = "virtualClusters.default.virtualCells[0]"
    assert told[f"{where}.cellNumber"] == "必须是整数，而不是true 或 false（True）"
    assert told[f"{where}.cellType"] == "NOWHERE：physicalCells 中没有类型为 NOWHERE 的单元；一个也没有"
    assert configurations_written() <= set(FORMS)
    assert len(configurations_written()) > 35


def test_a_quota_that_cannot_be_carved_out_names_level_need_and_what_is_there(world: World) -> None:
    bad = deepcopy(RACK)
    bad["virtualClusters"]["audio"]["virtualCells"][0]["cellNumber"] = 2
    assert faults(bad, world) == {
        "virtualClusters": "the quotas need 2 cells of type node in the chain rack, 1 are there"
    }


def test_names_that_cannot_be_are_refused(world: World) -> None:
    bad = deepcopy(RACK)
    bad["virtualClusters"]["two words"] = {}
    assert faults(bad, world).keys() == {"virtualClusters.two words"}


def test_a_gpu_in_use_must_keep_a_cell(world: World) -> None:
    world.node("gpu01", gpus=5)
    world.submit(gpu=5)
    world.settle()
    assert faults(RACK, world) == {"physicalCluster.physicalCells.gpu01": "GPU 4 of gpu01 is in use and has no cell"}
    assert Node.objects.get(name="gpu01").slots == [0, 1, 2, 3, 4]


def test_a_sku_is_one_model(world: World) -> None:
    ScriptedNode("gpu01", gpus=4, model="NVIDIA V100").report()
    ScriptedNode("gpu02", gpus=4, model="NVIDIA A100").report()
    assert faults(RACK, world) == {"physicalCluster.physicalCells.gpu02": "gpu02 has NVIDIA A100; V100 is NVIDIA V100"}


def test_what_a_file_does_not_name_keeps_its_cells_and_loses_its_quota(world: World) -> None:
    world.node("spare", gpus=2)
    take(RACK, world)
    again = deepcopy(RACK)
    del again["virtualClusters"]["vision"]
    take(again, world)
    assert owned() == {"vision": {}, "audio": {"V100": 4}}
    assert PinnedCell.objects.get().vc is None
    spare = Node.objects.get(name="spare")
    assert spare.shape is not None
    assert spare.shape.name == "A100-node2"


@pytest.mark.parametrize("named", [None, {}])
def test_a_file_that_names_no_virtual_cluster_takes_no_quota_away(world: World, named: dict[str, Any] | None) -> None:
    without = {**RACK, "virtualClusters": named}
    take(without, world)
    take(RACK, world)
    assert "take every quota away" in faults(without, world)["virtualClusters"]
    assert owned() == {"vision": {"V100": 4}, "audio": {"V100": 4}}
    take({**RACK, "virtualClusters": {"vision": {}, "audio": None}}, world)
    assert owned() == {"vision": {}, "audio": {}}


@pytest.mark.parametrize("share", [{"memory": "12Ei"}, {"cpu": "1e9"}])
def test_more_than_a_server_can_have_is_refused(world: World, share: dict[str, str]) -> None:
    bad = deepcopy(RACK)
    bad["physicalCluster"]["skuTypes"]["V100"] |= share
    assert "more CPU or memory than can be" in faults(bad, world)["physicalCluster.physicalCells.gpu01"]


def test_a_changed_file_moves_nodes_into_other_chains_while_jobs_run(world: World) -> None:
    for name in ("gpu01", "gpu02"):
        ScriptedNode(name, gpus=4, model="NVIDIA V100").report()
    take(RACK, world)
    flat = deepcopy(RACK)
    del flat["physicalCluster"]["cellTypes"]["rack"]
    flat["physicalCluster"]["physicalCells"] = [
        {"cellType": "node", "cellAddress": name} for name in ("gpu01", "gpu02")
    ]
    flat["virtualClusters"] = {"vision": {"virtualCells": [{"cellType": "node", "cellNumber": 2}]}}
    take(flat, world)
    assert not cluster_read().cluster.upper_cells
    assert not CellType.objects.filter(name="rack").exists()
    assert owned() == {"vision": {"V100": 8}, "audio": {}}
