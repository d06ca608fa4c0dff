"""Servers join by one line: a token that an administrator makes, and a key that the server makes."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
import redis
from django.db import connections
from django.test import Client
from django.utils import timezone

from nodes.__main__ import main
from nodes.agent.check.portal import portal_findings
from nodes.agent.config.options import options_load
from nodes.protocol.envelope import NodeKey, PortalKey
from portal.accounts.models import AuditEntry, ClusterRole
from portal.common.errors import Invalid
from portal.hardware.models import Node
from portal.hardware.services.redis_accounts import redis_address
from portal.joining.models import JoinToken
from portal.joining.services.join_tokens import join_token_create
from tests.support.people.cast import HOST, Api, person
from tests.support.people.live_web import live_web
from tests.support.people.pages import Browser
from tests.support.run.waiting import early_in_a_minute
from tests.support.services.tls import DAY, Authority

pytestmark = pytest.mark.django_db(transaction=True)


def made(*, uses: int = 1, hours: int = 1, labels: str = "", now: datetime | None = None) -> str:
    return join_token_create(uses=uses, hours=hours, labels=labels, actor="root", now=now or timezone.now()).secret


def asked(token: str, name: str, key: NodeKey | None = None, address: str = "192.0.2.7") -> Any:
    body = {"token": token, "name": name, "public_key": (key or NodeKey.generate()).public}
    return Client(HTTP_HOST=HOST).post("/api/v1/join", body, content_type="application/json", REMOTE_ADDR=address)


def told(answer: Any, key: NodeKey) -> dict[str, Any]:
    assert answer.status_code == 201, answer.content
    found: dict[str, Any] = json.loads(key.unseal(answer.json()["sealed"]))
    return found


def test_a_server_joins_with_its_own_key_and_is_told_what_only_it_can_read() -> None:
    key = NodeKey.generate()
    answer = asked(made(labels="rack=3"), "gpu07", key)
    environment = told(answer, key)["environment"]
    node = Node.objects.get(name="gpu07")
    assert node.public_key == key.public
    assert environment["BERTH_NODE_NAME"] == "gpu07"
    assert environment["BERTH_NODE_RACK"] == "3"
    assert environment["BERTH_NODE_REDIS_URL"] == redis_address(node)
    assert answer.headers["Cache-Control"] == "no-store"
    assert redis_address(node).split(":")[2].split("@")[0] not in answer.content.decode()
    with redis.Redis.from_url(environment["BERTH_NODE_REDIS_URL"]) as client:
        assert client.ping()


def test_the_same_server_again_is_the_same_server_and_uses_nothing_up() -> None:
    token, key = made(), NodeKey.generate()
    first, again = (told(asked(token, "gpu07", key), key) for _ in range(2))
    assert first == again
    assert JoinToken.objects.get().used == 1
    assert Node.objects.count() == 1


def test_a_server_that_asks_twice_at_one_moment_is_one_server() -> None:
    token, key, barrier = made(), NodeKey.generate(), Barrier(2)

    def ask(_: int) -> Any:
        barrier.wait(10)
        try:
            return asked(token, "gpu07", key)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(ask, range(2))
    assert told(first, key) == told(second, key)
    assert JoinToken.objects.get().used == 1
    assert AuditEntry.objects.filter(action="node.add").count() == 1


@pytest.mark.parametrize(
    "public_key",
    [
        base64.b64encode(bytes(32)).decode(),  # points of small order: nothing can be sealed to them
        base64.b64encode(b"\1" + bytes(31)).decode(),
        base64.b64encode(b"\xff" * 32).decode(),
        base64.b64encode(bytes(31)).decode(),
        f"{NodeKey.generate().public}!",  # the same key in other words
        "é" * 44,
    ],
)
def test_what_is_no_key_joins_nothing(public_key: str) -> None:
    body = {"token": made(), "name": "gpu07", "public_key": public_key}
    answer = Client(HTTP_HOST=HOST).post("/api/v1/join", body, content_type="application/json")
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (400, "public_key"), answer.content
    assert Node.objects.count() == JoinToken.objects.get().used == 0


def test_a_token_that_does_not_hold_says_nothing_of_names() -> None:
    assert asked(made(), "gpu07").status_code == 201
    old = made(now=timezone.now() - timedelta(hours=2))
    assert [asked(old, name).status_code for name in ("gpu07", "gpu08")] == [403, 403]


def test_each_token_that_does_not_hold_says_why() -> None:
    token = made(uses=1)
    assert asked(token, "gpu07").status_code == 201
    old = made(now=timezone.now() - timedelta(hours=2))
    gone = made()
    JoinToken.objects.filter(prefix=gone[:16]).update(revoked_at=timezone.now())
    for bad, name, why in (
        (token, "gpu08", "This join token is used up: 1 servers have joined by it."),
        (old, "gpu08", "This join token has expired."),
        (gone, "gpu08", "This join token is not known or was revoked."),
        ("berth_join_x", "gpu08", "This join token is not known or was revoked."),
    ):
        answer = asked(bad, name)
        assert (answer.status_code, answer.json()["detail"].startswith(why)) == (403, True), answer.content
    assert list(Node.objects.values_list("name", flat=True)) == ["gpu07"]


def test_a_name_that_is_taken_uses_nothing_up() -> None:
    token = made(uses=2)
    assert asked(token, "gpu07").status_code == 201
    answer = asked(token, "gpu07")
    assert answer.status_code == 409
    assert "A node named gpu07 is registered with another key." in answer.json()["detail"]
    assert asked(token, "GPU 8").status_code == 400
    assert JoinToken.objects.get().used == 1


def test_guessing_is_slow() -> None:
    early_in_a_minute()
    answers = [asked("berth_join_guess", "gpu07").status_code for _ in range(32)]
    assert answers.count(403) == 30
    assert answers[-1] == 429
    assert asked(made(), "gpu07", address="192.0.2.8").status_code == 201


def test_the_audit_log_tells_of_tokens_and_never_their_secrets() -> None:
    root = Api(person("root", ClusterRole.ADMIN))
    token = root.call("POST", "join-tokens", {"uses": 2, "hours": 5, "labels": "rack=3"}).json()
    assert token["line"].endswith(f"join http://127.0.0.1:8000 {token['secret']}")
    asked(token["secret"], "gpu07")
    root.call("DELETE", f"join-tokens/{token['id']}")
    assert asked(token["secret"], "gpu08").status_code == 403
    rows = AuditEntry.objects.filter(action="join_token").order_by("id")
    assert [(one.target, one.before, one.after) for one in rows] == [
        (
            token["prefix"],
            None,
            {
                "uses": 2,
                "labels": "rack=3",
                "accept": False,
                "cpu_tasks": False,
                "expires_at": rows[0].after and rows[0].after["expires_at"],
            },  # fmt: skip
        ),
        (token["prefix"], None, {"node": "gpu07", "used": 1, "uses": 2}),
        (token["prefix"], {"uses": 2, "used": 1, "labels": "rack=3"}, None),
    ]
    entry = AuditEntry.objects.get(action="node.add")
    assert (entry.actor, entry.via, entry.address) == ("root", "web", "192.0.2.7")
    assert root.get("join-tokens") == []
    assert token["secret"] not in json.dumps(list(AuditEntry.objects.values("target", "before", "after")))


@pytest.mark.parametrize(
    ("wrong", "path"), [({"uses": 0}, "uses"), ({"hours": 721}, "hours"), ({"labels": "room=3"}, "labels"),
                        ({"labels": "rack="}, "labels")],
)  # fmt: skip
def test_what_cannot_be_is_said_of_its_field(wrong: dict[str, Any], path: str) -> None:
    with pytest.raises(Invalid) as caught:
        made(**wrong)
    assert [fault.path for fault in caught.value.faults] == [path]


def test_the_page_shows_the_line_once_and_revokes() -> None:
    browser = Browser(person("root", ClusterRole.ADMIN))
    assert browser.get("/new-node").links["Join tokens"] == "/join-tokens"
    assert "There is no token" in browser.get("/join-tokens").text
    page = browser.send("/join-tokens", uses="3", hours="24", labels="rack=3")
    assert "Copy it now: the token is not shown again." in page.text
    secret = page.html.split("join http://127.0.0.1:8000 ")[1].split()[0]
    assert "no-store" in page.headers["Cache-Control"]
    assert asked(secret, "gpu07").status_code == 201
    again = browser.get("/join-tokens")
    assert secret not in again.html
    assert "1 of 3" in again.text
    wrong = browser.send("/join-tokens", uses="0", hours="24", labels="floor=2")
    assert wrong.status == 400
    assert "From 1 to 1000 servers." in wrong.text
    assert "Write rack=NAME" in wrong.text
    token = JoinToken.objects.get()
    revoked = browser.send(f"/join-tokens/{token.pk}/revoke", form="/join-tokens")
    assert "The token is revoked; servers that have joined stay." in revoked.text


# ---------------------------------------------------------------- the command on the server


@pytest.fixture
def portal(transactional_db: None) -> Iterator[str]:
    with live_web() as web:
        yield f"http://{web.host}"


def command(folder: Path, url: str, token: str, *more: str) -> int:
    return main(["join", url, token, "--state-dir", str(folder), "--name", "gpu07", *more])


def test_one_line_makes_a_server_a_node_that_can_start(
    portal: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token, state = made(uses=1, labels="rack=3"), tmp_path / "state"
    assert command(state, portal, token) == 0
    assert f"gpu07 has joined {portal}; its settings are in {state / 'node.env'}." in capsys.readouterr().out
    for name in ("node.key", "node.env"):
        assert stat.S_IMODE((state / name).stat().st_mode) == 0o600
    options = options_load(["--state-dir", str(state)], {})
    assert (options.name, options.rack) == ("gpu07", "3")
    with redis.Redis.from_url(options.redis_url) as client:
        assert client.ping()
    before = (state / "node.key").read_text(), (state / "node.env").read_text()
    assert command(state, portal, token) == 0
    assert before == ((state / "node.key").read_text(), (state / "node.env").read_text())
    assert Node.objects.get().public_key == NodeKey.load(before[0].strip()).public


def test_the_authority_of_the_portals_certificate_is_kept_for_the_agent(tmp_path: Path) -> None:
    authority, state = Authority(tmp_path), tmp_path / "state"
    files = authority.sign("portal")
    with live_web(ssl_certfile=files.certificate, ssl_keyfile=files.key) as web:
        url = f"https://{web.host}"
        assert command(state, url, made()) == 2, "signed by nobody who is known"
        assert command(state, url, made(), "--ca", str(authority.ca)) == 0
        known = authority.ca.read_text()
        authority.ca.unlink()
        options = options_load(["--state-dir", str(state), "--portal-url", url], {})
        assert options.portal_ca == state / "portal-ca.pem"
        assert options.portal_ca.read_text() == known
        verdicts = {line.name: line.verdict for line in portal_findings(options)}
        assert (verdicts["clock"], verdicts["version"]) == ("ok", "ok")


def test_a_server_that_joins_a_portal_whose_certificate_is_not_taken_is_told_the_cure(
    tmp_path: Path, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    authority, state = Authority(tmp_path), tmp_path / "state"
    settings.PORTAL_CA = str(authority.ca)
    digest = hashlib.sha256(authority.ca.read_bytes()).hexdigest()
    for files, words in (
        (authority.sign("expired", begins=-2 * DAY, ends=-DAY), "has expired: renew it there (or set this clock right"),
        (authority.sign("early", begins=DAY, ends=2 * DAY), "is not valid yet: this server's clock says"),
        (authority.sign("other", host="portal.example.org"), "is for another name: write the name that it has into"),
    ):
        with live_web(ssl_certfile=files.certificate, ssl_keyfile=files.key) as web:
            for trusted in (("--ca", str(authority.ca)), ("--ca-sha256", digest)):
                assert command(state, f"https://{web.host}", made(), *trusted) == 2
                said = capsys.readouterr().err
                assert said.startswith(f"berth-node: The certificate of the portal at {web.host} {words}"), said
                assert said.count("\n") == 1
    assert not Node.objects.exists()
    assert command(state, "https://no..name", made()) == 2
    assert "There is no server named no..name: correct the address" in capsys.readouterr().err


def test_the_line_carries_the_digest_of_the_portals_authority_and_the_server_takes_no_other(
    tmp_path: Path, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    authority, state = Authority(tmp_path), tmp_path / "state"
    files = authority.sign("portal")
    settings.PORTAL_CA = str(authority.ca)
    root = person("root", ClusterRole.ADMIN)
    page = Browser(root).send("/join-tokens", uses="2", hours="24", labels="")
    (digest,) = set(re.findall(r"--ca-sha256 (\S+)", page.html))
    assert page.html.count(f"--ca-sha256 {digest}") == 2, "for both ways"
    line = Api(root).call("POST", "join-tokens", {"uses": 1}).json()["line"]
    assert line.endswith(f" --ca-sha256 {digest}")
    with live_web(ssl_certfile=files.certificate, ssl_keyfile=files.key) as web:
        url = f"https://{web.host}"
        assert command(state, url, made(), "--ca-sha256", "0" * 64) == 2
        assert "has another authority than the join line names" in capsys.readouterr().err
        assert not Node.objects.exists(), "the token has gone to nobody"
        assert command(state, url, made(), "--ca-sha256", digest) == 0
    options = options_load(["--state-dir", str(state)], {})
    assert options.portal_ca
    assert options.portal_ca.read_text() == authority.ca.read_text()
    assert sorted(path.name for path in state.iterdir()) == ["node.env", "node.key", "portal-ca.pem"]
    with live_web() as plain:
        assert command(state, f"https://{plain.host}", made(), "--ca-sha256", digest) == 2
    assert "does not speak TLS" in capsys.readouterr().err
    assert command(state, url, made(), "--ca-sha256", "no") == 2
    assert "BERTH_JOIN_CA_SHA256" in capsys.readouterr().err


def test_the_authority_is_told_to_whoever_asks_and_only_where_there_is_one(tmp_path: Path, settings: Any) -> None:
    client = Client(HTTP_HOST=HOST)
    none = client.get("/authority.crt")
    assert (none.status_code, none.headers["Content-Type"]) == (404, "text/plain; charset=utf-8")
    root = Api(person("root", ClusterRole.ADMIN))
    assert "--ca-sha256" not in root.call("POST", "join-tokens", {"uses": 1}).json()["line"]
    settings.PORTAL_CA = str(Authority(tmp_path).ca)
    told = client.get("/authority.crt")
    assert (told.status_code, told.headers["Content-Type"]) == (200, "application/x-pem-file")
    assert told.content.decode() == Path(settings.PORTAL_CA).read_text()


@contextmanager
def false_portal(environment: dict[str, str]) -> Iterator[str]:
    """Somebody else who answers at the portal's address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # noqa: N802  # its parent's name
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            told = json.dumps({"environment": environment}).encode()
            self.send_response(201)
            self.end_headers()
            sealed = PortalKey.seal_for(asked["public_key"], told)
            self.wfile.write(json.dumps({"name": asked["name"], "sealed": sealed}).encode())

        def log_message(self, format: str, *args: Any) -> None:
            return

    served = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=served.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{served.server_port}"
    served.shutdown()
    served.server_close()
    thread.join()


def test_a_portal_sets_nothing_of_what_a_server_allows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = {
        "BERTH_NODE_NAME": "gpu07", "BERTH_NODE_REDIS_URL": "redis://127.0.0.1:1/0",
        "BERTH_NODE_PORTAL_PUBLIC_KEY": PortalKey.generate().public, "BERTH_NODE_MOUNT_ROOTS": "/etc",
        "BERTH_NODE_NFS_SERVERS": "*",
    }  # fmt: skip
    with false_portal(told) as url:
        assert command(tmp_path, url, "x") == 0
    options = options_load(["--state-dir", str(tmp_path)], {})
    assert (options.name, options.mount_roots, options.nfs_servers) == ("gpu07", (), ())
    (tmp_path / "node.env").unlink()
    with false_portal({**told, "BERTH_NODE_CLUSTER": "berth\nBERTH_NODE_MOUNT_ROOTS=/etc"}) as url:
        assert command(tmp_path, url, "x") == 2
    assert "not as a portal of Berth does" in capsys.readouterr().err
    assert not (tmp_path / "node.env").exists()


def test_what_stands_in_the_environment_is_more_than_what_was_told(portal: str, tmp_path: Path) -> None:
    assert command(tmp_path, portal, made()) == 0
    environ = {"BERTH_NODE_STATE_DIR": str(tmp_path), "BERTH_NODE_RACK": "9"}
    assert options_load([], environ).rack == "9"
    assert options_load(["--rack", "4"], environ).rack == "4"


def test_all_of_it_can_come_from_the_environment(portal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text(made())
    monkeypatch.setenv("BERTH_JOIN_URL", portal)
    monkeypatch.setenv("BERTH_JOIN_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("BERTH_NODE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("BERTH_NODE_NAME", "gpu09")
    assert main(["join"]) == 0
    assert Node.objects.get().name == "gpu09"


def test_an_agent_that_is_told_where_joins_at_its_first_start(
    portal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a container that is given these variables does. A range of ports that is none ends the start after it."""
    monkeypatch.setenv("BERTH_JOIN_URL", portal)
    monkeypatch.setenv("BERTH_NODE_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("BERTH_NODE_NAME", "gpu09")
    monkeypatch.setenv("BERTH_NODE_PORT_RANGE", "none")
    assert main([]) == 2
    assert "BERTH_JOIN_TOKEN is not set" in capsys.readouterr().err
    monkeypatch.setenv("BERTH_JOIN_TOKEN", made())
    assert main([]) == 2
    assert f"berth-node: gpu09 has joined {portal}" in capsys.readouterr().err
    monkeypatch.setenv("BERTH_JOIN_TOKEN", "berth_join_over")
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("berth-node: BERTH_NODE_PORT_RANGE"), "it asks once"
    assert Node.objects.get().name == "gpu09"


def test_each_refusal_is_one_sentence(portal: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    closed = "http://127.0.0.1:1"
    used = made()
    assert asked(used, "other").status_code == 201
    for url, token, more, why in (
        (portal, "berth_join_x", [], "This join token is not known or was revoked. Ask an administrator"),
        (portal, used, [], "This join token is used up"),
        (portal, made(), ["--name", "other"], "A node named other is registered with another key."),
        (closed, "x", [], "Nothing listens where the portal at 127.0.0.1:1 should"),
        ("http://nowhere.invalid", "x", [], "There is no server named nowhere.invalid"),
        (f"{portal}/login", "x", [], "not as a portal of Berth does: correct the address."),
        ("berth.example.org", "x", [], "such as https://berth.example.org: it must begin with http:// or https://"),
        ("https://x:99999", "x", [], "BERTH_JOIN_URL: 'https://x:99999' is no address of a portal, such as"),
        ("https://x:abc", "x", ["--ca-sha256", "0" * 64], "its port is no number from 1 to 65535"),
        ("https://[::1", "x", [], "its host is neither a name nor an address"),
        ("https://:8000", "x", [], "it names no host"),
        (portal, "x", ["--name", "GPU 7"], "is no name"),
    ):
        assert command(tmp_path, url, token, *more) == 2
        said = capsys.readouterr().err
        assert (why in said, said.count("\n")) == (True, 1), said
    assert not (tmp_path / "node.env").exists()
