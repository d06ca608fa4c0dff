"""``python -m nodes check`` says what is wrong on a server, a line for each thing, with its cure."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from nodes.__main__ import main
from nodes.check import check_lines
from nodes.check.line import Line, Verdict
from nodes.check.machine import machine_lines
from nodes.check.portal import redis_line
from nodes.inventory import AGENT_VERSION
from nodes.options import key_make, options_load
from nodes.protocol import (
    PortalKey,
    node_account,
    node_account_rules,
    reports_account,
    reports_account_rules,
    url_with_account,
)
from tests.support.docker_engine import DockerEngine
from tests.support.redis_server import RedisServer


class Portal(BaseHTTPRequestHandler):
    """What a portal answers at /healthz; ``ahead_s``: by how much its clock is ahead of this one."""

    ahead_s: ClassVar[float] = 0
    version: ClassVar[str | None] = AGENT_VERSION

    def do_GET(self) -> None:
        body = json.dumps({"status": "ok"} | ({"version": self.version} if self.version else {})).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def date_time_string(self, timestamp: float | None = None) -> str:
        return formatdate(time.time() + self.ahead_s, usegmt=True)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def portal(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Portal)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def environ(tmp_path: Path, portal: str) -> dict[str, str]:
    """A server that joined; nothing answers where its Redis should be."""
    key_make(tmp_path / "node.key")
    return {
        "BERTH_NODE_NAME": "gpu01",
        "BERTH_NODE_STATE_DIR": str(tmp_path),
        "BERTH_NODE_REDIS_URL": "redis://127.0.0.1:1/0",
        "BERTH_NODE_PORTAL_URL": portal,
        "BERTH_NODE_PORTAL_PUBLIC_KEY": PortalKey.generate().public,
        "BERTH_NODE_GPUS": "simulated:2xA100-80GB",
        "BERTH_NODE_DOCKER_URL": f"unix://{tmp_path}/no.sock",
        "BERTH_NODE_PORT_RANGE": "20000-20009",
    }


def found(environ: dict[str, str], **changes: str) -> dict[str, Line]:
    told = environ | {f"BERTH_NODE_{name.upper()}": value for name, value in changes.items()}
    return {line.name: line for line in check_lines([], told)}


def test_every_line_that_is_not_well_has_a_cure(environ: dict[str, str], tmp_path: Path) -> None:
    lines = found(environ, mount_roots=f"{tmp_path}:/mnt/nowhere:/proc")
    assert [line for line in lines.values() if (line.verdict is Verdict.OK) == bool(line.cure)] == []
    assert lines["docker"].verdict is Verdict.FAILED
    assert lines["docker"].cure.startswith("Start Docker (systemctl start docker)")
    assert lines["redis"].text == "Nothing listens where Redis at 127.0.0.1:1 should"
    assert lines["redis"].cure.startswith("Start it, open its port, or correct BERTH_NODE_REDIS_URL")
    assert lines["storage /mnt/nowhere"].verdict is Verdict.FAILED
    assert lines[f"storage {tmp_path}"].verdict is Verdict.WARNING
    assert lines["storage /proc"].verdict is Verdict.OK
    for name in ("settings", "key", "driver", "clock", "version"):
        assert lines[name].verdict is Verdict.OK, lines[name]


def test_a_clock_that_is_wrong_is_told_with_how_much(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for ahead_s, verdict, words in (
        (0.0, Verdict.OK, "as the portal's"),
        (-9.0, Verdict.WARNING, "s ahead of the portal's"),
        (600.0, Verdict.FAILED, "s behind the portal's"),
    ):
        monkeypatch.setattr(Portal, "ahead_s", ahead_s)
        line = found(environ)["clock"]
        assert (line.verdict, words in line.text) == (verdict, True), line
    assert line.cure == "Let this server follow a time server: timedatectl set-ntp true"


@pytest.mark.parametrize(
    ("version", "verdict", "cure"),
    [
        ("0.1.7", Verdict.OK, ""),
        ("0.2.0", Verdict.WARNING, "Install the agent of 0.2.0 here."),
        ("0.3.0", Verdict.FAILED, "Install the agent of 0.3.0 here."),
        ("0.0.9", Verdict.WARNING, f"Bring the portal up to {AGENT_VERSION}."),
        (None, Verdict.FAILED, "Set BERTH_NODE_PORTAL_URL to the portal's address."),
    ],
)
def test_an_agent_of_another_release_is_told(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, version: str | None, verdict: Verdict, cure: str
) -> None:
    monkeypatch.setattr(Portal, "version", version)
    line = found(environ)["version"]
    assert (line.verdict, line.cure) == (verdict, cure), line


def test_a_portal_that_cannot_be_reached_is_told(environ: dict[str, str]) -> None:
    assert found(environ, portal_url="http://127.0.0.1:1")["portal"].text == (
        "Nothing listens where the portal at 127.0.0.1:1 should"
    )
    assert found(environ, portal_url="")["clock"].verdict is Verdict.WARNING


def test_a_server_that_has_not_joined_is_told_so_and_looked_at_all_the_same(tmp_path: Path) -> None:
    lines = found({}, state_dir=str(tmp_path), gpus="simulated:1xA100-80GB", docker_url=f"unix://{tmp_path}/no.sock")
    assert lines["settings"].verdict is Verdict.FAILED
    assert "BERTH_NODE_NAME: is not set" in lines["settings"].text
    assert {"driver", "docker", "address", "ports"} <= lines.keys()
    assert "redis" not in lines


def test_a_key_that_others_read_a_missing_one_and_a_missing_driver(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "node.key").chmod(0o644)
    assert found(environ)["key"].cure == f"Run: chmod 600 {tmp_path / 'node.key'}"
    (tmp_path / "node.key").unlink()
    lines = found(environ, gpus="nvml", address="192.0.2.1")
    assert lines["key"].cure.startswith("Run berth-node join URL TOKEN")
    assert lines["address"].cure == "Correct BERTH_NODE_ADDRESS."


def test_ports_in_use_are_named(environ: dict[str, str], portal: str) -> None:
    port = portal.rpartition(":")[2]
    line = found(environ, port_range=f"{port}-{port}")["ports"]
    assert (line.verdict, line.text) == (Verdict.WARNING, f"{port}-{port}; in use: {port}")


def test_the_command_tells_it_to_people_and_programs(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert main(["check"]) == 1
    text = capsys.readouterr().out
    assert "failed   redis          Nothing listens where Redis at 127.0.0.1:1 should\n" in text
    assert " -> Start it, open its port" in text
    assert main(["check", "--json"]) == 1
    lines = json.loads(capsys.readouterr().out)
    assert {"name": "settings", "verdict": "ok", "text": "node gpu01 of cluster berth", "cure": ""} in lines


@pytest.mark.redis
def test_redis_is_tried_by_both_of_the_nodes_accounts(redis_server: RedisServer) -> None:
    url = url_with_account(redis_server.url, account=node_account("gpu01"), password="right")
    accounts = {node_account("gpu01"): node_account_rules("gpu01"), reports_account("gpu01"): reports_account_rules()}
    with redis_server.client() as root:
        for account, rules in accounts.items():
            assert redis_line(url, "gpu01").verdict is Verdict.FAILED
            root.execute_command("ACL", "SETUSER", account, "reset", "on", ">right", *rules)
        assert redis_line(url, "gpu01").verdict is Verdict.OK
        for account in accounts:
            root.acl_deluser(account)
    assert redis_line(redis_server.url, "gpu01").verdict is Verdict.WARNING, "an account that may do everything"


@pytest.mark.docker
def test_a_real_engine_is_looked_at(environ: dict[str, str], docker_engine: DockerEngine) -> None:
    options = options_load([], {**environ, "BERTH_NODE_DOCKER_URL": docker_engine.url})
    lines = {line.name: line for line in machine_lines(options)}
    assert lines["docker"].verdict is Verdict.OK
    assert lines["cgroup"].text.startswith("version ")
    assert lines["live-restore"].verdict is Verdict.OK
    assert lines["disk"].text.endswith(f"free at {docker_engine.folder}/data")
    without = {line.name for line in machine_lines(replace(options, runtime="process"))}
    assert {"docker", "disk"} <= without
    assert "cgroup" not in without
