"""A server joins from the browser or by the API: registered, its key shown once, seen when it has come."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.sessions.models import Session
from django.core import serializers
from django.utils import timezone

from nodes.protocol.envelope import NodeKey, envelope_open
from nodes.protocol.messages import Report, decode
from portal.accounts.models import AuditEntry, ClusterRole
from portal.cluster.services.node_report import node_report, node_report_late
from portal.hardware.models import Node, NodeEvent
from portal.hardware.services.redis_accounts import redis_address
from portal.hardware.states import NodeHealth
from portal.joining.services.joining import node_new_key
from portal.scheduler.reconcile import jobs_reconcile
from portal.scheduler.reports import report_take
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World
from tests.support.people.cast import Api, cast_of, person
from tests.support.people.pages import Browser, Page

pytestmark = pytest.mark.django_db
KEY = re.compile(r"node\.key' <<'END'\n(\S+)\nEND")
JOIN = "/cluster/nodes/gpu07/join"


@pytest.fixture
def world(db: None) -> World:
    made = World()
    made.node("gpu01", gpus=4)
    return made


@pytest.fixture
def browser(world: World) -> Browser:
    return Browser(person("root", ClusterRole.ADMIN))


def lines(page: Page) -> str:
    """What is to be run on the server."""
    found = re.search(r'id="join-settings"[^>]*>(.*?)</pre>', page.html, re.DOTALL)
    assert found
    return found[1].replace("&#x27;", "'").replace("&lt;", "<").replace("&gt;", ">")


def key_in(page: Page) -> str:
    """The key that it shows; empty where it shows none."""
    found = KEY.search(lines(page))
    return found[1] if found else ""


def registered(browser: Browser, name: str = "gpu07") -> Page:
    page = browser.send("/new-node", name=name)
    assert page.status == 200
    return page


def test_a_server_is_registered_and_comes_with_the_key_that_was_shown(browser: Browser) -> None:
    assert browser.get("/cluster/nodes").links["Add a server"] == "/new-node"
    page = registered(browser)
    assert "gpu07 is registered. Copy the lines below now: its key is not shown again." in page.text
    assert "Waiting for the first report of gpu07." in page.text
    for line in (
        "BERTH_NODE_NAME=gpu07", "BERTH_NODE_CLUSTER=berth",
        f"BERTH_NODE_PORTAL_PUBLIC_KEY={django_settings.PORTAL_KEY.public}",
    ):  # fmt: skip
        assert line in lines(page)
    assert page.attribute("section", "data-hx-get") == [JOIN]
    node = ScriptedNode("gpu07", gpus=2, key=key_in(page))
    assert "Waiting for the first report" in browser.get(JOIN, HX_Request="true").text
    assert node.report()
    part = browser.get(JOIN, HX_Request="true")
    assert "gpu07 is here. Accept it on its page, and it gets jobs." in part.text
    node.accept()
    part = browser.get(JOIN, HX_Request="true")
    assert "gpu07 is here. It has 2 GPUs: A100." in part.text
    assert "<html" not in part.html


def test_the_key_is_shown_once_and_kept_nowhere(browser: Browser, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    page = registered(browser)
    first = key_in(page)
    again = browser.send(JOIN)
    second = key_in(again)
    assert len({first, second, ""}) == 3
    for shown in (page, again):
        assert "no-store" in shown.headers["Cache-Control"]
    assert key_in(browser.get(JOIN)) == ""
    rows = [*Node.objects.all(), *NodeEvent.objects.all(), *AuditEntry.objects.all()]
    kept = serializers.serialize("json", rows) + json.dumps([one.get_decoded() for one in Session.objects.all()])
    for secret in (first, second):
        assert NodeKey.load(secret).public in kept
        assert secret not in kept + caplog.text + "".join(browser.get(path).html for path in ("/audit", JOIN))
    assert list(AuditEntry.objects.filter(target="gpu07").order_by("id").values_list("action", "actor")) == [
        ("node.add", "root"),
        ("node.key", "root"),
    ]


def test_a_new_key_is_heard_and_the_old_one_refused(world: World, browser: Browser) -> None:
    node = world.nodes["gpu01"]
    assert node.report()
    page = browser.send("/cluster/nodes/gpu01/join")
    assert "gpu01 has a new key, and the old one is refused." in page.text
    assert "Waiting for the first report of gpu01." in page.text
    assert not node.report()
    node.key = NodeKey.load(key_in(page))
    assert node.report()
    assert "gpu01 is here. It has 4 GPUs: A100." in browser.get("/cluster/nodes/gpu01/join").text


FAR = 1 << 62
"""A start that no other one's number is beyond: by a clock that was years ahead, or by who had taken the server."""


def test_with_a_new_key_the_count_of_starts_begins_anew(world: World) -> None:
    node = world.nodes["gpu01"]
    assert report_take(text=node.report_text(boot=FAR), now=timezone.now())
    assert not node.report()
    checked = node.row  # by the old key, just before it goes
    key = node_new_key(node=node.row, actor="root", now=timezone.now()).key
    late = decode(
        envelope_open(
            node.report_text(boot=FAR, seq=FAR), public=checked.public_key, sender="gpu01", to="portal", kind="report",
            now_ms=0,
        ),
        Report,
    )  # fmt: skip
    assert not node_report(node=checked, report=late, now=timezone.now()), "what the old one signed does not count"
    node_report_late(node=checked, report=late, now=timezone.now())
    node.key = NodeKey.load(key)
    assert node.report()


def test_a_start_that_is_numbered_before_the_last_one_is_told_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    node = world.nodes["gpu01"]
    assert report_take(text=node.report_text(boot=FAR), now=timezone.now())
    told = NodeEvent.objects.filter(code="old_start")
    assert not node.report()
    assert not told.exists(), "the last one of an agent that has just been started again"
    Node.objects.update(last_report_at=timezone.now() - timedelta(minutes=2))
    for _ in range(3):
        assert not node.report()
    assert [event.message for event in told] == [
        "Reports of gpu01 are refused: its agent numbers its start before the one that was heard last. Give it a new "
        "key."
    ]
    assert caplog.text.count("Reports of gpu01 are refused") == 1
    node.key = NodeKey.load(node_new_key(node=node.row, actor="root", now=timezone.now()).key)
    assert node.report()
    assert told.count() == 1


def test_while_tasks_are_there_the_key_stays(world: World, browser: Browser) -> None:
    world.submit(gpu=1)
    world.settle()
    page = browser.send("/cluster/nodes/gpu01/join")
    assert (page.status, key_in(page)) == (409, "")
    assert "Tasks are on gpu01, or their logs still come in; drain it first, then make a new key." in page.text
    assert world.nodes["gpu01"].report()
    Node.objects.update(health=NodeHealth.LOST)
    jobs_reconcile(now=timezone.now())
    assert key_in(browser.send("/cluster/nodes/gpu01/join")), "the server was given up with its tasks"


WRONG: list[tuple[dict[str, str], str]] = [
    ({"name": ""}, "This field is required."),
    ({"name": "GPU_07"}, "Small letters, digits, dots and dashes, at most 63, a letter or digit first and last."),
    ({"name": "gpu-"}, "Small letters, digits, dots and dashes, at most 63, a letter or digit first and last."),
    ({"name": "gpu01"}, "A node named gpu01 is registered with another key."),
    ({"name": "gpu07", "public_key": "abc"}, "This is no key"),
]


@pytest.mark.parametrize(("typed", "complaint"), WRONG)
def test_what_cannot_be_registered_is_said_beside_its_field(
    browser: Browser, typed: dict[str, str], complaint: str
) -> None:
    page = browser.send("/new-node", **typed)
    assert page.status == 400
    assert complaint in page.text
    fields = {named["name"]: named.get("value", "") for tag, named in page.tags if tag == "input"}
    assert {name: fields[name] for name in typed} == typed
    assert list(Node.objects.values_list("name", flat=True)) == ["gpu01"]


def test_a_server_with_a_key_of_its_own_is_told_no_other(browser: Browser) -> None:
    key = NodeKey.generate()
    page = browser.send("/new-node", name="gpu07", public_key=key.public)
    assert "gpu07 is registered with its own key." in page.text
    assert "node.key" not in lines(page)
    assert ScriptedNode("gpu07", key=key.secret).report()


ASKED_FOR = "Put the password of the portal's Redis where PASSWORD stands"
ADDRESSES = [
    ("redis://:swordfish@10.0.0.1:6379/0", "redis://node.gpu01:PASSWORD@10.0.0.1:6379/0", False),
    ("rediss://berth:swordfish@redis.example.org/1", "rediss://node.gpu01:PASSWORD@redis.example.org/1", False),
    ("redis://127.0.0.1:6379/0", "redis://node.gpu01:PASSWORD@127.0.0.1:6379/0", True),
]


@pytest.mark.parametrize(("url", "told", "warned"), ADDRESSES)
def test_the_password_of_the_portals_redis_is_on_no_page(
    browser: Browser, settings: Any, url: str, told: str, warned: bool
) -> None:
    settings.REDIS_NODES_URL = url
    page = browser.get("/cluster/nodes/gpu01/join")
    assert f"BERTH_NODE_REDIS_URL={told}\n" in lines(page)
    assert "swordfish" not in page.html
    assert ("Redis listens on the portal's own machine only" in page.text) == warned
    assert "Where PASSWORD stands belongs the password of this node's own account in Redis." in page.text
    settings.REDIS_ACCOUNTS = False
    page = browser.get("/cluster/nodes/gpu01/join")
    assert "swordfish" not in page.html
    assert (ASKED_FOR in page.text) == ("swordfish" in url)


def test_the_nodes_own_account_in_redis_is_told_with_its_key_this_once(browser: Browser) -> None:
    page = registered(browser)
    address = redis_address(Node.objects.get(name="gpu07"))
    assert address.startswith("redis://node.gpu07:")
    assert f"BERTH_NODE_REDIS_URL={address}\n" in lines(page)
    password = address.split(":")[2].split("@")[0]
    again = browser.get(JOIN)
    assert password not in again.html
    renewed = browser.send(JOIN)
    assert password not in renewed.html
    assert f"BERTH_NODE_REDIS_URL={redis_address(Node.objects.get(name='gpu07'))}\n" in lines(renewed)


def test_an_authority_of_its_own_is_handed_on(browser: Browser, settings: Any, tmp_path: Path) -> None:
    settings.REDIS_CA = str(tmp_path / "ca.pem")
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\nxyz\n-----END CERTIFICATE-----\n")
    settings.REDIS_NODES_URL = f"rediss://redis.example.org/0?ssl_ca_certs={tmp_path}/ca.pem&ssl_cert_reqs=required"
    page = browser.get("/cluster/nodes/gpu01/join")
    assert "BERTH_NODE_REDIS_URL=rediss://node.gpu01:PASSWORD@redis.example.org/0\n" in lines(page)
    assert "BERTH_NODE_REDIS_CA=/var/lib/berth-node/redis-ca.pem\n" in lines(page)
    assert "redis-ca.pem' <<'END'\n-----BEGIN CERTIFICATE-----\nxyz\n-----END CERTIFICATE-----\nEND\n" in lines(page)
    made = Api(person("admin", ClusterRole.ADMIN)).call("POST", "nodes", {"name": "gpu08"}).json()
    assert made["redis_ca"].splitlines()[1] == "xyz"


@pytest.mark.parametrize("who", ["lead", "owner", "auditor", "nobody"])
def test_nobody_else_registers_servers_or_makes_keys(world: World, who: str) -> None:
    other = Browser(cast_of(world.vc, world.user)[who])
    before = Node.objects.get().public_key
    assert "Add a server" not in other.get("/cluster/nodes").links
    assert "New key" not in other.get("/cluster/nodes/gpu01").links
    assert other.send("/new-node", form="/profile", name="gpu07").status == 403
    assert other.send("/cluster/nodes/gpu01/join", form="/profile").status == 403
    assert Node.objects.get().public_key == before


def test_where_no_server_is_yet_administrators_are_led_to_adding_one(db: None) -> None:
    root, other = Browser(person("root", ClusterRole.ADMIN)), Browser(person("bob"))
    for path in ("/cluster", "/cluster/nodes"):
        assert root.get(path).links["Add a server"] == "/new-node"
        assert "An administrator adds the first one." in other.get(path).text
    assert root.get("/").links["List of nodes"] == "/cluster/nodes"


def test_the_api_tells_the_key_once(world: World) -> None:
    api = Api(person("root", ClusterRole.ADMIN))
    answer = api.call("POST", "nodes", {"name": "gpu07"})
    made = answer.json()
    assert (answer.status_code, answer.headers["Cache-Control"]) == (201, "no-store")
    assert NodeKey.load(made["key"]).public == made["public_key"]
    assert made["environment"]["BERTH_NODE_NAME"] == "gpu07"
    node = ScriptedNode("gpu07", key=made["key"])
    assert node.report()
    assert "key" not in api.get("nodes/gpu07")
    renewed = api.call("POST", "nodes/gpu07/key").json()
    assert renewed["key"] not in {made["key"], None}
    assert not node.report()
    own = NodeKey.generate().public
    assert api.call("POST", "nodes", {"name": "gpu08", "public_key": own}).json()["key"] is None
    assert api.call("POST", "nodes", {"name": "gpu07"}).status_code == 409
    assert api.call("POST", "nodes", {"name": "GPU 9"}).status_code == 400
