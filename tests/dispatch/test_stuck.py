"""A node that reports and can carry out nothing: nothing new is placed there, what runs goes on, everybody concerned is
told why and what to do, and it comes back by itself."""

from __future__ import annotations

from dataclasses import replace

from django.test import Client

from portal.accounts.models import ClusterRole, User
from portal.clusters.models import Node as Row
from portal.clusters.models import NodeEvent, takes_tasks
from portal.dispatch.gauges import gauges
from tests.support.cast import Api, person
from tests.support.world import World

AWAY = "the Docker Engine does not answer (ConnectionError)"


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
