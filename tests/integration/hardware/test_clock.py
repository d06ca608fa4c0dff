"""A node whose clock is wrong is told so, once, and nothing else is done about it."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.utils import timezone

from portal.accounts.models import ClusterRole
from portal.hardware.models import Node, NodeEvent
from portal.hardware.silences import portal_late_ms
from portal.scheduler.reports import report_take
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(db: None) -> World:
    return World()


def reports(node: ScriptedNode, *, ahead_s: float, times: int = 1) -> None:
    """So many reports of a node whose clock is ahead of ours, or behind."""
    for _ in range(times):
        text = node.report_text(sent_ms=int((time.time() + ahead_s) * 1000))
        assert report_take(text=text, now=timezone.now())


def codes() -> list[str]:
    return list(NodeEvent.objects.filter(code__startswith="clock").values_list("code", flat=True))


@pytest.mark.parametrize(("ahead_s", "words"), [(8.5, "8 s ahead of"), (-8.5, "8 s behind")])
def test_a_wrong_clock_is_said_on_the_node_with_its_cure(world: World, ahead_s: float, words: str) -> None:
    node = world.node("gpu01")
    reports(node, ahead_s=ahead_s, times=9)
    told = Api(world.user).get("nodes/gpu01")["clock_fault"]
    assert words in told
    assert "chrony" in told
    assert told in Browser(world.user).get("/cluster").text
    assert codes() == ["clock_wrong"], "one event, however many reports"
    assert portal_late_ms(now=timezone.now()) == 0, "of the portal one node tells nothing"
    assert Node.objects.get().health == "healthy"
    reports(node, ahead_s=0)
    assert Api(world.user).get("nodes/gpu01")["clock_fault"] == ""
    assert codes() == ["clock_wrong", "clock_right"]


def test_a_clock_so_far_behind_that_reports_have_expired_when_they_come_is_said_and_nothing_else_is_believed(
    world: World,
) -> None:
    node = world.node("gpu01")
    heard = Node.objects.get().last_report_at
    for _ in range(9):
        text = node.report_text(sent_ms=int((time.time() - 60) * 1000))
        assert not report_take(text=text, now=timezone.now())
    assert not report_take(text=text, now=timezone.now()), "the same again"
    assert "9 s behind" in Api(world.user).get("nodes/gpu01")["clock_fault"]
    assert codes() == ["clock_wrong"]
    assert Node.objects.get().last_report_at == heard


def test_reports_that_waited_in_the_queue_are_no_wrong_clock(world: World) -> None:
    node = world.node("gpu01")
    for late_s in (20, 15, 10, 5, 0):
        reports(node, ahead_s=-late_s)
    assert codes() == []


def test_clocks_within_five_seconds_are_good_enough(world: World) -> None:
    reports(world.node("gpu01"), ahead_s=4.5, times=3)
    reports(world.node("gpu02"), ahead_s=-3, times=9)
    assert codes() == []


@pytest.mark.parametrize("number", [2, 3])
@pytest.mark.parametrize("late_s", [9, 60], ids=["late", "expired"])
def test_a_portal_that_is_late_with_all_nodes_calls_no_clock_wrong_and_says_so_itself(
    world: World, late_s: float, number: int
) -> None:
    nodes = [world.node(f"gpu0{one}") for one in range(number)]
    silent = world.node("silent")
    Node.objects.filter(name=silent.name).update(late_at=timezone.now() - timedelta(minutes=1), late_ms=0)
    for _ in range(12):
        for node in nodes:
            report_take(text=node.report_text(sent_ms=int((time.time() - late_s) * 1000)), now=timezone.now())
    assert codes() == []
    assert {node.clock_fault for node in Node.objects.all()} == {""}
    root = Api(person("root", ClusterRole.ADMIN))
    told = [alert for alert in root.get("alerts") if alert["code"] in {"node_clock", "reports_late"}]
    assert [(alert["code"], f"{late_s} s late" in alert["message"]) for alert in told] == [("reports_late", True)]
    for node in nodes:
        reports(node, ahead_s=0)
    assert portal_late_ms(now=timezone.now()) == 0


def test_one_clock_among_others_is_wrong_also_while_the_portal_is_late(world: World) -> None:
    one, two, ahead = world.node("gpu01"), world.node("gpu02"), world.node("gpu03")
    for _ in range(16):
        reports(two, ahead_s=-7)
        reports(one, ahead_s=-20)
        reports(ahead, ahead_s=30)
    skew_s = {node.name: round(node.clock_skew_ms / 1000) for node in Node.objects.all()}
    assert [(-13 - 2 <= skew_s["gpu01"] <= -13 + 2), abs(skew_s["gpu02"]) <= 2, skew_s["gpu03"] >= 28] == [True] * 3
