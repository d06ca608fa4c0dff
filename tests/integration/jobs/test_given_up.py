"""The servers that are silent are most of all, so that none is given up by itself; an administrator does it by hand."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.db.models import F
from django.utils import timezone

from nodes.protocol.envelope import NodeKey
from portal.accounts.models import AuditEntry, ClusterRole
from portal.hardware.models import Node, NodeEvent, ReportsLane
from portal.hardware.services.silence import lane_pulse, nodes_lose
from portal.hardware.states import NodeHealth
from portal.jobs.models import Allocation, Job
from portal.jobs.services.stop import job_stop
from portal.jobs.states import JobState
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser

AT = "nodes/gpu01/give-up"
WAY_OUT = "It is silent: where it does not come back, give it up on its page first."
REASON = {"reason": "its disk died"}


@pytest.fixture
def root(world: World) -> Api:
    return Api(person("root", ClusterRole.ADMIN))


def day_of_silence(*nodes: ScriptedNode) -> datetime:
    """These nodes said nothing for a day, in which reports of others were taken in."""
    now = timezone.now()
    ago = now - timedelta(days=1)
    Node.objects.filter(name__in=[node.name for node in nodes]).update(last_report_at=ago)
    lane_pulse(now=now)
    ReportsLane.objects.update(open_since=ago)
    assert nodes_lose(now=now) == []
    return now


def dead_with_a_job(world: World) -> Job:
    """The only server is dead, with a job on it that somebody has stopped."""
    node = world.node("gpu01", gpus=1)
    job = world.submit()
    world.settle()
    day_of_silence(node)
    job_stop(job=job, actor=world.user, now=timezone.now())
    world.cycle()
    job.refresh_from_db()
    assert job.state == JobState.STOPPING
    return job


def test_the_only_server_that_died_is_given_up_by_hand_and_set_up_anew_under_its_name(world: World, root: Api) -> None:
    job = dead_with_a_job(world)
    own = {"name": "gpu01", "public_key": NodeKey.generate().public}
    asked = [("POST", "nodes", own), ("POST", "nodes/gpu01/key", None), ("DELETE", "nodes/gpu01", None)]
    for method, path, body in asked:
        refused = root.call(method, path, body)
        assert (refused.status_code, refused.json()["detail"].endswith(WAY_OUT)) == (409, True), refused.content
    assert root.call("POST", AT, {"reason": ""}).status_code == 400
    answer = root.call("POST", AT, REASON)
    assert (answer.status_code, answer.json()["health"]) == (200, "lost"), answer.content
    assert answer.json()["health_reason"].endswith("; given up by root: its disk died")

    job.refresh_from_db()
    assert job.state == JobState.STOPPED
    entry = AuditEntry.objects.get(action="node.give_up")
    assert (entry.actor, entry.target) == ("root", "gpu01")
    assert NodeEvent.objects.get(code="given_up").actor == "root"

    world.nodes["gpu01"] = ScriptedNode("gpu01", gpus=1, key=root.call("POST", "nodes/gpu01/key").json()["key"])
    assert world.nodes["gpu01"].report()
    world.settle()
    assert not Allocation.objects.filter(released_at=None).exists()
    again = world.submit(name="again")
    world.settle()
    again.refresh_from_db()
    assert again.state == JobState.RUNNING


def test_a_server_that_was_given_up_can_be_removed(world: World, root: Api) -> None:
    dead_with_a_job(world)
    assert root.call("POST", AT, REASON).status_code == 200
    assert root.call("DELETE", "nodes/gpu01").status_code == 200


def test_one_that_reports_or_was_silent_for_a_moment_is_not_given_up(world: World, root: Api) -> None:
    node = world.node("gpu01", gpus=1)
    told = "gpu01 is not given up: it has not been silent for 60 s while the portal took reports in."
    assert root.call("POST", AT, REASON).json()["detail"] == told
    day_of_silence(node)
    ReportsLane.objects.update(open_since=F("last_pulse_at"))
    assert root.call("POST", AT, REASON).json()["detail"] == told, "the portal was away"
    assert Node.objects.get().health == NodeHealth.HEALTHY
    day_of_silence(node)
    assert root.call("POST", AT, REASON).status_code == 200
    assert root.call("POST", AT, REASON).json()["detail"] == "gpu01 is lost already."


def test_one_that_was_given_up_and_comes_back_is_well(world: World, root: Api) -> None:
    node = world.node("gpu01", gpus=1)
    day_of_silence(node)
    root.call("POST", AT, REASON)
    assert node.report()
    assert (node.row.health, node.row.health_reason) == (NodeHealth.HEALTHY, "")


def test_to_give_up_one_takes_no_other_one_that_is_silent_with_it(world: World, root: Api) -> None:
    nodes = [world.node(f"gpu0{number}", gpus=1) for number in (1, 2, 3)]
    now = day_of_silence(*nodes[:2])
    nodes[2].report(now=now)
    root.call("POST", AT, REASON)
    assert nodes_lose(now=now) == []
    health = dict(Node.objects.values_list("name", "health"))
    assert health == {"gpu01": "lost", "gpu02": "healthy", "gpu03": "healthy"}
    assert NodeEvent.objects.filter(code="silent_together").count() == 2, "it is told once"
    nodes[0].report()
    assert [node.name for node in nodes_lose(now=now)] == ["gpu02"], "silent alone"


def test_of_two_servers_one_is_silent_alone_and_both_are_most(world: World) -> None:
    first, second = world.node("gpu01", gpus=1), world.node("gpu02", gpus=1)
    now = day_of_silence(first, second)
    assert set(Node.objects.values_list("health", flat=True)) == {"healthy"}
    second.report(now=now)
    assert [node.name for node in nodes_lose(now=now)] == ["gpu01"], "half is not more than half"


def test_its_page_has_the_button_and_says_what_comes_of_it(world: World, root: Api) -> None:
    node, path = world.node("gpu01", gpus=1), "/cluster/nodes/gpu01"
    admin = Browser(person("admin", ClusterRole.ADMIN))
    assert "Give it up" not in admin.get(path).text
    day_of_silence(node)
    assert "Give it up" not in Browser(world.user).get(path).text
    assert "Give it up" in admin.get(path).text
    assert "This field is required." in admin.send(f"{path}/give-up", path, reason="").text
    told = "gpu01 is given up; its jobs wait for other nodes."
    assert told in admin.send(f"{path}/give-up", path, **REASON).text
    page = admin.get(path).text
    assert ("given up by admin: its disk died" in page, "Give it up" in page) == (True, False)
    assert "is lost already" in admin.send(f"{path}/give-up", path, **REASON).text


def test_alerts_of_silent_servers_name_the_way_out(world: World, root: Api) -> None:
    first, second = world.node("gpu01", gpus=1), world.node("gpu02", gpus=1)
    day_of_silence(first, second)
    advice = {alert["code"]: alert["advice"] for alert in root.get("alerts")}
    assert "give it up on its page" in advice["nodes_silent"]
    root.call("POST", AT, REASON)
    advice = {alert["code"]: alert["advice"] for alert in root.get("alerts")}
    assert "give it up on its page" in advice["node_silent"]


def heard_tomorrow(node: ScriptedNode, *others: ScriptedNode) -> datetime:
    """The portal's clock was a day ahead when it last heard of ``node``; now it is right, and hears of the others."""
    now = timezone.now()
    ReportsLane.objects.update(open_since=now - timedelta(hours=1), last_pulse_at=now)
    Node.objects.filter(name=node.name).update(last_report_at=now + timedelta(days=1))
    for other in others:
        other.report(now=now)
    return now


def test_one_that_was_last_heard_by_a_clock_that_was_ahead_is_silent(world: World) -> None:
    dead, *others = (world.node(f"gpu0{number}", gpus=1) for number in (1, 2, 3))
    now = heard_tomorrow(dead, *others)
    Node.objects.filter(name="gpu02").update(last_report_at=now + timedelta(seconds=30))
    assert [node.name for node in nodes_lose(now=now)] == ["gpu01"], "another worker's clock may be ahead a little"


def test_a_clock_that_is_set_back_loses_nobody_who_has_yet_to_report_by_it(world: World, root: Api) -> None:
    """Portal and servers were ahead together, all were heard, and some have reported since."""
    late, *others = (world.node(f"gpu0{number}", gpus=1) for number in (1, 2, 3))
    now = heard_tomorrow(late, *others)
    ReportsLane.objects.update(open_since=now - timedelta(hours=1), last_pulse_at=now + timedelta(days=1))
    assert nodes_lose(now=now) == []
    assert root.call("POST", AT, REASON).status_code == 409
    for seconds in range(0, 121, 5):
        lane_pulse(now=now + timedelta(seconds=seconds))
    after = now + timedelta(seconds=120)
    for other in others:
        other.report(now=after)
    assert [node.name for node in nodes_lose(now=after)] == ["gpu01"], "it has said nothing since"


def test_one_that_was_last_heard_by_a_clock_that_was_ahead_can_be_given_up_by_hand(world: World, root: Api) -> None:
    dead = world.node("gpu01", gpus=1)
    assert nodes_lose(now=heard_tomorrow(dead)) == []
    assert root.call("POST", AT, REASON).status_code == 200
