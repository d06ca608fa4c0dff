"""A node that reports and can carry out nothing: nothing new is placed there, what runs goes on, everybody concerned is
told why and what to do, and it comes back by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from django.test import Client

from portal.accounts.models import ClusterRole, User
from portal.alerts.gauges import gauges
from portal.hardware.models import Node as Row
from portal.hardware.models import NodeEvent, takes_tasks
from portal.hardware.services.generations import nodes_bump
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person

AWAY = "no Docker Engine answers at unix:///run/docker.sock: systemctl start docker, or correct BERTH_NODE_DOCKER_URL"


def events() -> list[str]:
    codes = NodeEvent.objects.filter(code__regex="^(engine|orders)_").order_by("id")
    return list(codes.values_list("code", flat=True))


def page(user: User) -> str:
    client = Client(HTTP_HOST="127.0.0.1")
    client.force_login(user)
    return client.get("/cluster/nodes/gpu01").content.decode()


def test_a_node_whose_engine_is_away_gets_nothing_new_until_it_answers(world: World) -> None:
    node = world.node("gpu01", gpus=2)
    running = world.submit(name="first")
    world.settle()
    well = node.inventory
    node.inventory = replace(well, engine_away=AWAY)
    node.report()
    node.inventory = replace(well, engine_away="the Docker Engine failed: no more memory")
    node.report()
    node.inventory = replace(well, engine_away=AWAY)
    node.report()
    assert not node.row.takes_tasks
    assert not Row.objects.filter(takes_tasks()).exists()
    waiting = world.submit(name="second")
    world.settle()
    for job, state in ((running, "running"), (waiting, "waiting")):
        job.refresh_from_db()
        assert job.state == state

    root = person("root", ClusterRole.ADMIN)
    told = {one["code"]: one for one in Api(root).get("alerts")}
    assert told["node_engine"]["severity"] == "critical"
    assert told["node_engine"]["message"] == (
        f"Its container engine does not answer: it takes nothing new until it does. The node says: {AWAY}."
    )
    assert "journalctl -u docker" in told["node_engine"]["advice"]
    assert "Its container engine does not answer." in told["servers_closed"]["message"]
    assert b'berth_alerts{code="node_engine",severity="critical"} 1.0' in gauges(now=world.now)
    answer = Api(root).get("nodes/gpu01")
    assert (answer["takes_tasks"], AWAY in answer["closed_reason"]) == (False, True)
    assert AWAY in page(root)
    assert "journalctl -u docker" in page(root)

    node.inventory = well
    node.report()
    world.settle()
    waiting.refresh_from_db()
    assert waiting.state == "running"
    assert (node.row.stuck_since, node.row.stuck_cause, node.row.stuck_words) == (None, "", "")
    assert events() == ["engine_away", "engine_back"]
    assert "node_engine" not in {one["code"] for one in Api(root).get("alerts")}


def reported(
    node: ScriptedNode, start: datetime, *, seconds: int, every: int = 5, before: Callable[[], object] = bool
) -> datetime:
    """Reports at this pace, each after ``before``; when it ended."""
    for at in range(every, seconds + 1, every):
        before()
        assert node.report(now=start + timedelta(seconds=at))
    return start + timedelta(seconds=seconds)


def test_a_node_that_does_not_take_its_orders_gets_nothing_new_until_it_does(world: World) -> None:
    node = world.node("gpu01", gpus=2)
    running = world.submit(name="first")
    world.settle()
    nodes_bump([node.row.pk])
    now = reported(node, world.now, seconds=90)
    assert node.row.takes_tasks
    now = reported(node, now, seconds=20)
    assert not node.row.takes_tasks
    waiting = world.submit(name="second")
    world.cycle()
    for job, state in ((running, "running"), (waiting, "waiting")):
        job.refresh_from_db()
        assert job.state == state

    root = person("root", ClusterRole.ADMIN)
    told = {one["code"]: one for one in Api(root).get("alerts")}
    assert told["node_orders"]["severity"] == "critical"
    assert "does not take its orders" in told["node_orders"]["message"]
    assert "journalctl -u berth-node" in told["node_orders"]["advice"]
    assert "It does not take its orders." in told["servers_closed"]["message"]
    assert "does not take its orders" in Api(root).get("nodes/gpu01")["closed_reason"]
    assert "does not take its orders" in page(root)

    now = reported(node, now, seconds=300, every=60)
    assert not node.row.takes_tasks, "a gap between its reports is no order taken"
    node.desired()
    node.report(now=now + timedelta(seconds=1))
    assert node.row.takes_tasks
    assert events() == ["orders_left", "orders_taken"]
    world.settle()
    waiting.refresh_from_db()
    assert waiting.state == "running"


@pytest.mark.parametrize("late", [1, 6])
def test_a_list_that_changes_with_each_report_closes_no_node_that_takes_it_late(world: World, late: int) -> None:
    """By as many reports: six are the 30 s for which a report may lie on the queue."""
    node = world.node("gpu01", gpus=1)
    seen = [0] * late

    def changed() -> None:
        nodes_bump([node.row.pk])
        seen.append(node.row.generation)
        node.generation = seen[-1 - late]

    reported(node, world.now, seconds=600, before=changed)
    assert node.row.takes_tasks
    assert events() == []


def test_the_time_begins_anew_with_a_gap_between_reports(world: World) -> None:
    """The portal, its worker or the broker was away: who could not hear of a list has not left it."""
    node = world.node("gpu01", gpus=1)
    reported(node, world.now, seconds=620, every=31)
    assert node.row.takes_tasks


def test_the_time_begins_anew_with_each_start_of_the_agent(world: World) -> None:
    node, now = world.node("gpu01", gpus=1), world.now
    for _ in range(5):
        now = reported(node, now, seconds=85)
        node.boot, node.seq = node.boot + 1, 0
    assert node.row.takes_tasks


def test_an_agent_that_waited_for_its_engine_has_not_left_its_orders(world: World) -> None:
    node, well = world.node("gpu01", gpus=1), world.nodes["gpu01"].inventory
    now = reported(node, world.now, seconds=60)
    node.inventory = replace(well, engine_away=AWAY)
    now = reported(node, now, seconds=300)
    node.inventory = well
    now = reported(node, now, seconds=60)
    assert node.row.takes_tasks
    assert events() == ["engine_away", "engine_back"]
    reported(node, now, seconds=40)
    assert events() == ["engine_away", "engine_back", "orders_left"]


def test_a_portal_that_was_restored_goes_on_from_what_its_nodes_have_seen(world: World) -> None:
    node = world.node("gpu01", gpus=1)
    node.generation = 700
    now = reported(node, world.now, seconds=200)
    nodes_bump([node.row.pk])
    reported(node, now, seconds=60)
    assert (node.row.takes_tasks, node.row.due) == (True, 701)
