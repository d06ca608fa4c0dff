"""The list of GPUs: states, holders as one may know them, readings, filters and pages."""

from __future__ import annotations

import time

import pytest

from nodes.protocol.messages import GpuProcess, GpuSample, Sample
from portal.accounts.models import ClusterRole
from portal.hardware.models import Gpu, Node
from portal.scheduler.reports import report_take
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person
from tests.support.services.redis_server import RedisServer

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    """On gpu01 a job holds one GPU, one is faulty and two are free; gpu02 is cordoned."""
    made = World()
    made.node("gpu01", gpus=4)
    made.submit(name="secret", gpu=1)
    made.settle()
    made.node("gpu02", gpus=1, model="NVIDIA H100")
    Node.objects.filter(name="gpu02").update(intent="cordoned")
    free = Gpu.objects.filter(node__name="gpu01", allocations=None).order_by("-index")[0]
    Gpu.objects.filter(pk=free.pk).update(fault="the node says: XID 79")
    return made


def test_each_gpu_has_its_place_its_state_and_its_holder(world: World) -> None:
    rows = Api(world.user).get("gpus")["results"]
    assert [(row["node"], row["index"], row["state"]) for row in rows] == [
        ("gpu01", 0, "held"), ("gpu01", 1, "free"), ("gpu01", 2, "free"), ("gpu01", 3, "faulty"),
        ("gpu02", 0, "unavailable"),
    ]  # fmt: skip
    assert (rows[0]["cell"], rows[0]["sku"], rows[4]["sku"]) == ("gpu01/0", "A100", "H100")
    assert rows[0]["holder"]["label"] == "alice/secret#1"
    assert (rows[1]["holder"], rows[3]["fault"]) == (None, "the node says: XID 79")


def test_of_anothers_job_one_learns_owner_and_team_and_no_name(world: World) -> None:
    answer = Api(person("charlie")).call("GET", "gpus?state=held")
    (row,) = answer.json()["results"]
    holder = row["holder"]
    assert (holder["user"], holder["vc"], holder["job"], holder["label"]) == ("alice", "vision", None, None)
    assert b"secret" not in answer.content


def test_gpus_are_found_by_node_sku_state_and_holding_team(world: World) -> None:
    api = Api(person("root", ClusterRole.ADMIN))
    expected = {
        "node=gpu02": [("gpu02", 0)],
        "sku=H100": [("gpu02", 0)],
        "sku=none": [],
        "vc=vision": [("gpu01", 0)],
        "vc=none": [],
        "state=free": [("gpu01", 1), ("gpu01", 2)],
        "state=faulty&state=unavailable": [("gpu01", 3), ("gpu02", 0)],
        "state=held&vc=vision&node=gpu01": [("gpu01", 0)],
    }
    found = {query: [(row["node"], row["index"]) for row in api.get(f"gpus?{query}")["results"]] for query in expected}
    assert found == expected
    assert api.call("GET", "gpus?state=broken").status_code == 400


def test_a_gpu_that_is_gone_is_told_as_long_as_a_task_holds_it(world: World) -> None:
    Gpu.objects.filter(node__name="gpu01", index__lt=2).update(present=False)
    rows = Api(world.user).get("gpus?node=gpu01")["results"]
    assert [(row["index"], row["state"], bool(row["holder"])) for row in rows] == [
        (0, "faulty", True), (2, "free", False), (3, "faulty", False),
    ]  # fmt: skip


def test_what_a_gpu_shows_now_stands_beside_it(world: World, redis_server: RedisServer) -> None:
    now_ms = int(time.time() * 1000)
    processes = (
        GpuProcess(pid=7, memory_mb=60_000, attempt="a1", utilisation=90), GpuProcess(pid=9, memory_mb=1, attempt=None)
    )  # fmt: skip
    reading = GpuSample(uuid="GPU-gpu01-0", utilisation=93, memory_used_mb=70_000, power_w=310, sm_active=40,
                        sm_occupancy=20, tensor_active=0, processes=processes)  # fmt: skip
    assert report_take(
        text=world.nodes["gpu01"].report_text(sample=Sample(at_ms=now_ms, gpus=(reading,))), now=world.now
    )
    rows = Api(world.user).get("gpus?node=gpu01&fields=reading")["results"]
    told = rows[0]["reading"]
    assert (told["utilisation"], told["memory_used_mb"], told["power_w"], told["temperature_c"]) == (
        93, 70_000, 310, None,
    )  # fmt: skip
    assert (told["sm_active"], told["sm_occupancy"], told["tensor_active"], told["dram_active"]) == (40, 20, 0, None)
    assert told["processes"] == [
        {"pid": 7, "memory_mb": 60_000, "utilisation": 90, "foreign": False},
        {"pid": 9, "memory_mb": 1, "utilisation": None, "foreign": True},
    ]
    assert [row["reading"] for row in rows[1:]] == [None] * 3
    redis_server.restart_empty()
    assert Api(world.user).get("gpus?node=gpu01&fields=reading")["results"][0]["reading"] is None
