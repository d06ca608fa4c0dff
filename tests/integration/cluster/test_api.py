"""Virtual clusters, nodes and hardware over REST: numbers that add up, and what an administrator may want."""

from __future__ import annotations

import json
from typing import Any

import pytest

from portal.accounts.models import ClusterRole
from portal.hardware.models import CellType, Gpu, Node, Sku
from portal.jobs.models import Allocation
from portal.teams.selectors.shares import vc_quotas
from portal.teams.services.quotas import quota_set
from portal.teams.services.teams import member_set, vc_create
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def admin(world: World) -> Api:
    return Api(person("admin", ClusterRole.ADMIN))


def test_a_teams_share_says_what_is_guaranteed_used_borrowed_and_unused(world: World, admin: Api) -> None:
    world.node("gpu01", gpus=4)
    world.submit(gpu=3)
    world.settle()
    Allocation.objects.filter(pk=Allocation.objects.latest("id").pk).update(standing="borrowed", virtual_cell="")
    share = admin.get("virtual-clusters/vision")["gpus"]
    left = {"free": 2, "lent": 0, "out_of_service": 0}
    assert share == [{"sku": "A100", "quota": 4, "guaranteed": 2, "borrowed": 1, **left}]


def test_ones_own_role_is_named_and_no_other(world: World) -> None:
    vc_create(name="audio", now=world.now)
    member_set(vc=world.vc, user=world.user, role="lead", now=world.now)
    rows = Api(world.user).get("virtual-clusters")["results"]
    assert {row["name"]: row["role"] for row in rows} == {"audio": None, "vision": "lead"}


def test_a_quota_of_larger_cells_counts_their_gpus(world: World) -> None:
    world.node("gpu01", gpus=8)
    leaf = CellType.objects.get(child__isnull=True)
    pair = CellType.objects.create(name="pair", sku=leaf.sku, child=leaf, child_count=2)
    quota_set(vc=world.vc, cell_type=leaf, count=1, now=world.now)
    world.vc.quota.create(
        cell_type=CellType.objects.create(name="host", sku=leaf.sku, child=pair, child_count=4), count=2
    )
    assert vc_quotas(vcs=[world.vc]) == {world.vc.pk: {"A100": 1 + 2 * 8}}


def test_a_node_tells_its_load_and_the_holder_of_each_gpu(world: World, admin: Api) -> None:
    world.node("gpu01", gpus=2)
    job = world.submit()
    world.settle()
    node = admin.get("nodes/gpu01")
    assert (node["cpu_milli_held"], node["memory_mb_held"]) == (1000, 1024)
    assert (node["intent"], node["health"], node["sku"]) == ("open", "healthy", "A100")
    (held,) = [gpu["holder"] for gpu in node["gpus"] if gpu["holder"]]
    assert (held["job"], held["label"], held["role"], held["index"]) == (job.pk, "alice/train#1", "worker", 0)


def test_a_gpu_that_is_gone_is_shown_only_while_somebody_holds_it(world: World, admin: Api) -> None:
    world.node("gpu01", gpus=2)
    world.submit()
    world.settle()
    Gpu.objects.update(present=False)
    (gpu,) = admin.get("nodes/gpu01")["gpus"]
    assert (gpu["usable"], gpu["holder"]["job"] is not None) == (False, True)


CHANGES: dict[str, dict[str, Any]] = {
    "none": {},
    "cordoned": {"intent": "cordoned"},
    "lost": {"health": "lost"},
}


@pytest.mark.parametrize("change", CHANGES)
def test_free_gpus_of_a_kind_are_those_that_a_task_could_have_now(world: World, admin: Api, change: str) -> None:
    world.node("gpu01", gpus=4)
    world.submit(gpu=2)
    world.settle()
    Gpu.objects.filter(index=3).update(fault="it fell off the bus")
    Node.objects.update(**CHANGES[change])
    (kind,) = admin.get("skus")
    expected = (4, 3, 2, 1) if change == "none" else (4, 0, 2, 0)
    assert (kind["gpus"], kind["usable"], kind["held"], kind["free"]) == expected


def test_a_kind_without_gpus_is_there_with_zeroes(world: World, admin: Api) -> None:
    Sku.objects.create(name="H100", gpu_model="NVIDIA H100", gpu_memory_mb=80000, cpu_milli=1, memory_mb=1)
    (kind,) = admin.get("skus")
    assert (kind["gpus"], kind["usable"], kind["held"], kind["free"]) == (0, 0, 0, 0)


def test_an_administrator_cordons_with_a_reason_and_opens_again(world: World, admin: Api) -> None:
    world.node("gpu01")
    cordoned = admin.call("PATCH", "nodes/gpu01", {"intent": "cordoned", "reason": "new fans"}).json()
    assert (cordoned["intent"], cordoned["intent_reason"]) == ("cordoned", "new fans")
    opened = admin.call("PATCH", "nodes/gpu01", {"intent": "open"}).json()
    assert (opened["intent"], opened["intent_reason"]) == ("open", "")


BAD_INTENTS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": ({"intent": "gone"}, "intent"),
    "missing": ({"reason": "x"}, "intent"),
    "misspelt": ({"intent": "open", "raison": "x"}, "raison"),
}


@pytest.mark.parametrize("case", BAD_INTENTS)
def test_an_intent_that_cannot_be_is_refused_and_changes_nothing(world: World, admin: Api, case: str) -> None:
    body, path = BAD_INTENTS[case]
    world.node("gpu01")
    answer = admin.call("PATCH", "nodes/gpu01", body)
    assert answer.status_code == 400
    assert [fault["path"] for fault in json.loads(answer.content)["errors"]] == [path]
    assert admin.get("nodes/gpu01")["intent"] == "open"


@pytest.mark.parametrize("path", ["nodes/none", "nodes/a%00b", "nodes/a%2Fb", "virtual-clusters/none", "nodes/ü"])
def test_what_is_not_there_is_not_found(admin: Api, path: str) -> None:
    answer = admin.call("GET", path)
    assert (answer.status_code, answer.headers["Content-Type"]) == (404, "application/problem+json")
