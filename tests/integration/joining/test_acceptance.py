"""A server that joins waits to be accepted, and what it claims beyond what was accepted does not count."""

from dataclasses import replace
from typing import Any

import pytest
from django.utils import timezone

from nodes.protocol.envelope import NodeKey
from nodes.protocol.messages import GpuInfo
from portal.accounts.models import ClusterRole
from portal.alerts.every import alerts_all
from portal.common.errors import Conflict, Invalid
from portal.hardware.acceptance import offer_checked
from portal.hardware.models import Gpu, Node, NodeEvent
from portal.jobs.models import TaskAttempt
from portal.joining.services.acceptance import node_accept
from portal.joining.services.join_tokens import join_token_create, node_join
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser

CPU_ONLY = {"resourcePerInstance": {"cpu": 1, "memoryMB": 1024, "gpu": 0}}


def forged(world: World, name: str = "forged", **more: Any) -> ScriptedNode:
    """A server with a great many cores that nobody has accepted."""
    node = world.nodes[name] = ScriptedNode(name, cpus=128, accept=False, model="Unknown", **more)
    assert node.report()
    return node


def accept_shown(node: ScriptedNode, claims: dict[str, Any]) -> None:
    node_accept(node=node.row, claims=claims, actor="root", now=timezone.now())
    assert node.report()


def test_a_server_that_nobody_accepted_gets_no_task_and_no_storage(world: World) -> None:
    node = forged(world, root="/srv/jobs")
    full = world.node("gpu01", gpus=0, cpus=1)
    world.submit(role=CPU_ONLY)
    world.settle()
    job = world.submit(role=CPU_ONLY)
    world.settle()
    job.refresh_from_db()
    assert job.state == "waiting"
    assert [attempt.node for attempt in TaskAttempt.objects.all()] == [full.row]
    row = node.row
    assert (row.takes_tasks, row.cpu_milli, row.memory_mb, row.address, row.storages) == (False, 0, 0, "", [])
    assert not Gpu.objects.exists()
    assert node.desired().storages == ()


def test_accepted_it_gets_the_job(world: World) -> None:
    node = forged(world)
    node.accept()
    job = world.submit(role=CPU_ONLY)
    world.settle()
    job.refresh_from_db()
    assert job.state == "running"
    assert node.row.cpu_milli == 128_000


def test_containers_that_a_pending_server_invents_are_no_news(world: World) -> None:
    node = forged(world)
    real = world.node("real", gpus=1)
    world.submit()
    world.settle()
    node.containers = dict(real.containers)
    node.report()
    assert node.row.strangers == {}


@pytest.mark.parametrize("at_once", [False, True], ids=["", "accept at once"])
def test_who_joins_by_a_token_is_pending_unless_the_token_says_accept_at_once(world: World, at_once: bool) -> None:
    now = timezone.now()
    made = join_token_create(uses=1, hours=1, labels="", accept=at_once, actor="root", now=now)
    key = NodeKey.generate()
    node_join(token=made.secret, name="gpu07", public_key=key.public, address="127.0.0.1", now=now)
    node = ScriptedNode("gpu07", key=key.secret, accept=False)
    node.report()
    assert node.row.pending is not at_once
    assert Gpu.objects.count() == (4 if at_once else 0)


def grown(node: ScriptedNode, **more: Any) -> Node:
    node.inventory = replace(node.inventory, **more)
    assert node.report()
    return node.row


def test_more_cores_memory_storages_and_another_address_do_not_count_until_confirmed(world: World) -> None:
    node = world.node("gpu01", root="/srv/jobs")
    before = node.row
    row = grown(
        node, cpu_milli=900_000, memory_mb=9_000_000, storages=("/srv/jobs", "/secret"), address="10.0.0.66",
    )  # fmt: skip
    same = ("cpu_milli", "memory_mb", "storages", "address")
    assert [getattr(row, name) for name in same] == [getattr(before, name) for name in same]
    node.accept()
    row = node.row
    assert (row.cpu_milli, row.memory_mb, row.address) == (900_000, 9_000_000, "10.0.0.66")
    assert row.storages == ["/srv/jobs", "/secret"]
    assert row.claims == {}


def gpu(name: str, index: int, model: str = "NVIDIA A100") -> GpuInfo:
    return GpuInfo(uuid=f"GPU-{name}-{index}", index=index, model=model, memory_mb=80000)


def test_more_gpus_and_gpus_of_another_model_do_not_count_until_confirmed(world: World) -> None:
    node = world.node("gpu01", gpus=2)
    more = (*node.inventory.gpus, gpu("gpu01", 2), gpu("gpu01", 3, model="NVIDIA H200"))
    grown(node, gpus=more)
    assert sorted(Gpu.objects.filter(present=True).values_list("index", flat=True)) == [0, 1]
    node.accept()
    assert Gpu.objects.filter(present=True).count() == 4


def test_a_card_that_replaces_one_of_the_same_model_counts_at_once(world: World) -> None:
    node = world.node("gpu01", gpus=2)
    row = grown(node, gpus=(gpu("gpu01", 0), gpu("spare", 1)))
    assert Gpu.objects.filter(present=True, uuid="GPU-spare-1").exists()
    assert row.claims == {}


def test_what_falls_counts_at_once_and_comes_back_by_itself(world: World) -> None:
    node = world.node("gpu01")
    told = node.inventory
    assert grown(node, cpu_milli=1000, gpus=told.gpus[:1]).cpu_milli == 1000
    node.inventory = told
    node.report()
    assert node.row.cpu_milli == told.cpu_milli
    assert Gpu.objects.filter(present=True).count() == 4


def test_memory_that_another_kernel_counts_a_little_differently_asks_nobody(world: World) -> None:
    node = world.node("gpu01")
    row = grown(node, memory_mb=node.inventory.memory_mb + 100)
    assert row.claims == {}


def test_a_server_that_runs_jobs_in_another_way_than_was_accepted_offers_nothing(world: World) -> None:
    node = world.node("gpu01")
    row = grown(node, runtime="process")
    assert (row.cpu_milli, Gpu.objects.filter(present=True).count()) == (0, 0)
    node.accept()
    assert node.row.cpu_milli == node.inventory.cpu_milli


def test_what_was_shown_is_accepted_whatever_is_claimed_since(world: World) -> None:
    node = world.node("gpu01")
    shown = grown(node, cpu_milli=64_000).claims
    grown(node, cpu_milli=500_000)
    accept_shown(node, shown)
    assert node.row.cpu_milli == 64_000


def test_a_server_whose_claims_come_and_go_writes_one_event_and_can_be_accepted(world: World) -> None:
    node = world.node("gpu01")
    few = node.inventory
    for _ in range(4):
        shown = grown(node, cpu_milli=64_000).claims
        node.inventory = few
        node.report()
    assert NodeEvent.objects.filter(code="grew").count() == 1
    accept_shown(node, shown)
    assert grown(node, cpu_milli=64_000).cpu_milli == 64_000


def test_alerts_name_the_pending_and_the_grown(world: World) -> None:
    forged(world)
    grown(world.node("gpu01"), cpu_milli=900_000)
    told = {(alert.code, alert.name): alert.message for alert in alerts_all(now=timezone.now())}
    assert ("node_pending", "forged") in told
    assert "900 CPU cores" in told["node_grew", "gpu01"]


def test_what_a_server_claims_is_told_to_those_alone_who_may_accept_it(world: World) -> None:
    forged(world, root="/srv/jobs")
    root = person("root", ClusterRole.ADMIN)
    admin, member = Api(root), Api(world.user)
    assert admin.get("nodes/forged")["claims"]["storages"] == ["/srv/jobs"]
    assert (member.get("nodes/forged")["pending"], member.get("nodes/forged")["claims"]) == (True, {})
    assert "/srv/jobs" not in Browser(world.user).get("/cluster/nodes/forged").text
    assert "/srv/jobs" in Browser(root).get("/cluster/nodes/forged").text


def test_nothing_to_accept_is_told(world: World) -> None:
    node = ScriptedNode("gpu09", accept=False)
    with pytest.raises(Conflict, match="has not reported yet"):
        node.accept()
    with pytest.raises(Conflict, match="claims nothing beyond"):
        world.node("gpu01").accept()


@pytest.mark.parametrize("told", [None, [], {}, {"cpu_milli": 1}, "x"])
def test_what_is_no_offer_is_refused(told: object) -> None:
    with pytest.raises(Invalid):
        offer_checked(told)
