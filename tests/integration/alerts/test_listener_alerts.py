"""What answers on a server without authentication is told as long as somebody's jobs reach it there, to administrators
alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodes.protocol.messages import Listener
from portal.accounts.models import ClusterRole
from portal.hardware.models import Node, Sku
from portal.teams.models import LoanLimit, VirtualCluster
from portal.teams.services.teams import member_set, vc_create
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db

REDIS, FIGURES = Listener("redis", "127.0.0.1", 6379), Listener("metrics", "0.0.0.0", 9100)


@pytest.fixture
def world() -> World:
    made = World()
    made.node("gpu01", gpus=1)
    made.node("gpu02", gpus=1)
    made.submit()
    made.settle()
    return made


@pytest.fixture
def gpu01(world: World) -> ScriptedNode:
    return world.nodes["gpu01"]


@pytest.fixture
def admin(world: World) -> Api:
    return Api(person("root", ClusterRole.ADMIN))


def tell(node: ScriptedNode, *listeners: Listener) -> None:
    node.inventory = replace(node.inventory, listeners=listeners)
    assert node.report()


def told(api: Api) -> dict[str, Any] | None:
    """The only alert; the disk of the machine that tests is its own matter."""
    rows = [row for row in api.get("alerts") if row["name"] != "data folder"]
    assert len(rows) < 2, rows
    return rows[0] if rows else None


def test_it_is_told_with_whose_jobs_reach_it_until_it_is_closed(world: World, gpu01: ScriptedNode, admin: Api) -> None:
    vc_create(name="audio", host_network=True, now=world.now)
    vc_create(name="single", now=world.now)
    tell(gpu01, REDIS, FIGURES)
    row = told(admin)
    assert row is not None
    assert (row["code"], row["severity"], row["name"]) == ("node_listeners", "warning", "gpu01")
    assert row["message"] == (
        "This answers there without authentication: Redis at 127.0.0.1:6379, figures for Prometheus at 0.0.0.0:9100. "
        "It is reached by jobs of several tasks, which may come from audio, vision. What listens at all addresses is "
        "reached by every job there."
    )
    lead = person("lead")
    member_set(vc=world.vc, user=lead, role="lead", now=world.now)
    assert told(Api(lead)) is None, "what is open where is no lead's matter"
    tell(gpu01, FIGURES)
    row = told(admin)
    assert row is not None
    assert row["severity"] == "info"
    tell(gpu01)
    assert told(admin) is None


def test_it_is_told_while_a_virtual_cluster_with_the_host_network_may_have_jobs_there(
    world: World, gpu01: ScriptedNode, admin: Api
) -> None:
    tell(gpu01, REDIS)
    VirtualCluster.objects.update(host_network=False)
    assert told(admin) is None
    audio = vc_create(name="audio", host_network=True, now=world.now)
    row = told(admin)
    assert row is not None
    assert "may come from audio." in row["message"]
    limit = LoanLimit.objects.create(vc=audio, sku=Sku.objects.get(), max_borrow=0)
    assert told(admin), "it has tasks without GPUs"
    Node.objects.update(cpu_tasks=False)
    assert told(admin) is None
    limit.delete()
    assert told(admin), "it may borrow"
    Node.objects.filter(name="gpu01").update(intent="draining")
    assert told(admin), "what runs there runs on"
    Node.objects.filter(name="gpu01").update(intent="open", accepted=None)
    row = told(admin)
    assert row is not None
    assert row["code"] == "node_pending"


def test_the_servers_page_shows_it_to_administrators_alone(world: World, gpu01: ScriptedNode, admin: Api) -> None:
    tell(gpu01, REDIS, replace(REDIS, kind="figments"), Listener("redis", "10.0.0.9", 1), FIGURES)
    page = Browser(person("other-root", ClusterRole.ADMIN)).get("/cluster/nodes/gpu01").text
    assert "Redis at 127.0.0.1:6379 reached by jobs of several tasks" in page
    assert "figures for Prometheus at 0.0.0.0:9100 reached by every job here" in page
    assert ("figments" in page, "10.0.0.9" in page) == (False, False)
    assert "6379" not in Browser(world.user).get("/cluster/nodes/gpu01").text
