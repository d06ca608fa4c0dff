"""OpenPAI's API: virtual clusters, storages, nodes and pods, alerts, and what is not there."""

from __future__ import annotations

import json

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.hardware.models import Gpu, Node
from portal.hardware.wordings import NO_REPORT
from portal.storages.models import Storage
from portal.teams.models import VirtualCluster
from portal.teams.services.teams import vc_create
from tests.integration.openpai.conftest import Pai
from tests.support.cluster.world import World
from tests.support.people.cast import HOST, person

pytestmark = pytest.mark.django_db


def test_a_virtual_cluster_tells_its_share_and_what_of_it_is_in_use(world: World, pai: Pai) -> None:
    world.node("gpu01", gpus=4)
    world.submit(gpu=1)
    world.settle()
    vc = pai.get("virtual-clusters/vision")
    assert (vc["capacity"], vc["usedCapacity"]) == (100, 25)
    assert vc["resourcesUsed"] == {"cpu": 1, "memory": 1024, "gpu": 1, "vCores": 1, "GPUs": 1}
    assert (vc["resourcesTotal"]["gpu"], vc["resourcesGuaranteed"]["gpu"]) == (4, 4)
    assert vc["resourcesTotal"]["cpu"] == 32
    assert pai.get("virtual-clusters") == {"vision": vc}
    assert pai.refused("GET", "virtual-clusters/none") == (404, "NoVirtualClusterError")
    told = json.loads(pai.call("GET", "virtual-clusters/none", None).content)["message"]
    assert told == "Virtual cluster none is not found; yours: vision."


def test_the_skus_of_a_virtual_cluster_tell_what_comes_with_a_gpu(world: World, pai: Pai) -> None:
    world.node("gpu01", gpus=4)
    vc_create(name="empty", now=timezone.now())
    (name,) = pai.get("cluster/sku-types?vc=vision")
    found = {name: {"cpu": 8, "memory": 32768, "gpu": 1}}
    assert pai.get("virtual-clusters/vision/sku-types") == pai.get("cluster/sku-types") == found
    assert pai.get("virtual-clusters/empty/sku-types") == {}
    assert pai.refused("GET", "cluster/sku-types?vc=none") == (404, "NoVirtualClusterError")


def test_many_virtual_clusters_take_no_more_queries_than_few(world: World, pai: Pai) -> None:
    world.node("gpu01")

    def queries() -> int:
        pai.get("virtual-clusters")  # what is asked once and kept until the configuration is another
        with CaptureQueriesContext(connection) as captured:
            assert len(pai.get("virtual-clusters")) == VirtualCluster.objects.count()
        return len(captured)

    few = queries()
    for index in range(12):
        vc_create(name=f"vc{index}", now=timezone.now())
    assert queries() == few


def test_one_sees_the_storages_that_ones_jobs_may_mount(world: World, pai: Pai) -> None:
    theirs = vc_create(name="theirs", now=timezone.now())
    Storage.objects.create(name="all", root="/all", everyone=True, jobs=True)
    mine = Storage.objects.create(
        name="mine", root="/mine", kind="nfs", export="files:/export/mine", read_only=True, per_user=True
    )
    mine.vcs.add(world.vc)
    Storage.objects.create(name="secret", root="/secret").vcs.add(theirs)
    assert [one["name"] for one in pai.get("storages")["storages"]] == ["all", "mine"]
    assert [one["name"] for one in pai.get("storages?default=true")["storages"]] == ["all"]
    found = pai.get("storages/mine")
    assert (found["type"], found["data"]) == ("nfs", {"server": "files", "path": "/export/mine"})
    assert (found["share"], found["readOnly"]) == (False, True)
    assert (pai.get("storages/all")["type"], pai.get("storages/all")["readOnly"]) == ("other", True)
    assert pai.refused("GET", "storages/secret") == (403, "ForbiddenUserError")
    assert pai.refused("GET", "storages/none") == (404, "NoStorageError")


def test_nodes_and_pods_answer_in_the_fields_of_kubernetes(world: World, root: Pai) -> None:
    world.node("gpu01", gpus=4)
    world.submit(name="a", gpu=2)
    world.settle()
    Gpu.objects.filter(index=3).update(fault="ECC")
    Node.objects.update(intent="cordoned")
    (node,) = root.get("kubernetes/nodes")["items"]
    assert (node["metadata"]["name"], node["spec"]["unschedulable"]) == ("gpu01", True)
    assert node["status"]["capacity"]["nvidia.com/gpu"] == "4"
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "3"
    (pod,) = root.get("kubernetes/pods?namespace=default")["items"]
    assert pod["metadata"]["labels"]["jobName"] == "alice~a"
    assert (pod["spec"]["nodeName"], pod["status"]["phase"]) == ("gpu01", "Running")
    assert pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "2"
    assert root.get("kubernetes/pods?namespace=kube-system")["items"] == []


def test_alerts_tell_administrators_of_lost_nodes_and_bad_gpus(world: World, pai: Pai, root: Pai) -> None:
    world.node("gpu01")
    world.cycle()
    assert "NodeNotReady" not in [one["labels"]["alertname"] for one in root.get("alerts")]
    Gpu.objects.filter(index=0).update(fault="ECC errors")
    Node.objects.update(health="lost", health_reason=NO_REPORT(time="noon", seconds=60))
    told = [(one["labels"]["alertname"], one["annotations"]["summary"], one["state"]) for one in root.get("alerts")]
    wanted = [
        ("NodeNotReady", "No report since noon; given up after 60 s.", "firing"),
        ("GpuFault", "GPU 0: ECC errors", "firing"),
    ]
    assert [one for one in told if one in wanted] == wanted
    assert pai.get("alerts") == []


@pytest.mark.parametrize("path", ["nothing", "authn/oidc/login", "jobs/a~b/metrics", "users/%00"])
def test_an_address_that_nobody_serves_is_told_in_openpais_form(db: None, path: str) -> None:
    assert Pai().refused("GET", path) == (404, "NoApiError")


def test_addresses_hold_with_and_without_a_slash_and_wrong_methods_are_refused(world: World, pai: Pai) -> None:
    assert pai.get("groups/") == pai.get("groups")
    assert pai.refused("PATCH", "groups") == (405, "NoApiError")


def test_a_mistake_of_ours_is_told_without_what_happened(
    world: World, pai: Pai, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: object, request: object) -> None:
        raise RuntimeError("the inside")

    monkeypatch.setattr("portal.openpai.api.cluster.VirtualClustersView.get", broken)
    answer = pai.call("GET", "virtual-clusters")
    assert (answer.status_code, json.loads(answer.content)["code"]) == (500, "UnknownError")
    assert b"inside" not in answer.content


def test_a_page_of_the_browser_is_no_way_in(world: World) -> None:
    client = Client(HTTP_HOST=HOST)
    client.force_login(person("bob"))
    assert client.get("/rest-server/api/v2/jobs").status_code == 401


def test_it_is_no_part_of_our_own_document(db: None) -> None:
    document = Client(HTTP_HOST=HOST).get("/api/v1/openapi.json").json()
    assert not [path for path in document["paths"] if "rest-server" in path]
