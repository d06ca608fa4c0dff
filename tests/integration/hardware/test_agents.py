"""An agent of another release is served while it is one apart; else the node says what to do, and so does the alert."""

from __future__ import annotations

import base64
import json
import logging
import time
from dataclasses import replace

import pytest
from django.conf import settings
from django.urls import reverse
from django.utils import timezone

from nodes.protocol.envelope import Envelope, envelope_seal
from portal.accounts.models import ClusterRole, User
from portal.hardware.models import Node
from portal.scheduler.reports import report_take
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db
SPEAKS = "Its agent is of version {}, this portal of {}: they work together where they are one release apart."


@pytest.fixture
def node(db: None) -> ScriptedNode:
    return World().node("gpu01")


@pytest.fixture
def admin(db: None) -> User:
    return person("root", ClusterRole.ADMIN)


def told(admin: User) -> list[dict[str, str]]:
    return [row for row in Api(admin).get("alerts") if row["code"] == "node_version"]


def test_agents_of_the_same_release_and_of_the_one_before_are_told_of_nowhere(
    node: ScriptedNode, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "VERSION", "0.4.1")
    for agent in ("0.4.0", "0.3.7"):
        node.inventory = replace(node.inventory, agent=agent)
        assert node.report()
        assert told(admin) == []


@pytest.mark.parametrize(
    ("agent", "cure"),
    [
        ("0.2.9", "Install the agent of 0.4.1 on that server; its tasks run on meanwhile."),
        ("1.0.0", "Bring the portal up to the agent's version."),
    ],
)
def test_one_that_is_further_apart_is_told_with_its_cure(
    node: ScriptedNode, admin: User, monkeypatch: pytest.MonkeyPatch, agent: str, cure: str
) -> None:
    monkeypatch.setattr(settings, "VERSION", "0.4.1")
    node.inventory = replace(node.inventory, agent=agent)
    assert node.report(), "it is served as far as it goes"
    (alert,) = told(admin)
    assert (alert["message"], alert["advice"]) == (SPEAKS.format(agent, "0.4.1"), cure)
    page = Browser(admin).get(reverse("node", args=["gpu01"])).text
    assert f"{SPEAKS.format(agent, '0.4.1')} {cure}" in page


def old_report(node: ScriptedNode) -> str:
    """As an agent of before sends it: without what is asked for now."""
    report = json.loads(json.loads(base64.b64decode(node.report_text().partition(".")[2]))["body"])
    del report["inventory"]["cpu_milli"]
    report["version"] = 0
    body = json.dumps(report)
    return envelope_seal(node.key, Envelope(node.name, "portal", "report", int(time.time() * 1000) + 30_000, body))


def test_reports_that_cannot_be_read_are_told_once_with_the_cure_until_one_can(
    node: ScriptedNode, admin: User, caplog: pytest.LogCaptureFixture
) -> None:
    before = Node.objects.get().last_report_at
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert not report_take(text=old_report(node), now=timezone.now())
    words = "What its agent reports cannot be read here: it is of another release than this portal "
    words += f"({settings.VERSION})."
    cure = f"Install the agent of {settings.VERSION} on that server; its tasks run on meanwhile."
    (line,) = [record.getMessage() for record in caplog.records if record.name == "portal.scheduler.reports"]
    assert line.startswith("reports of gpu01 cannot be read (Object missing required field `cpu_milli`")
    assert line.endswith(f"{words} {cure}")
    (alert,) = told(admin)
    assert (alert["message"], alert["advice"]) == (words, cure)
    assert Node.objects.get().last_report_at == before
    assert node.report()
    assert told(admin) == []
