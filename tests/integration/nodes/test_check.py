"""``python -m nodes check`` says what is wrong on a server, a line for each thing, with its cure."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import psutil
import pynvml
import pytest

from nodes.__main__ import main
from nodes.agent.check import findings
from nodes.agent.check.disk_and_storage import disk_findings, storage_findings
from nodes.agent.check.finding import Finding, Verdict
from nodes.agent.check.machine import Cards, driver_finding, machine_findings
from nodes.agent.check.portal import redis_finding
from nodes.agent.config.options import Options, key_make, options_load
from nodes.agent.config.settings_files import server_settings
from nodes.agent.hardware.inventory import AGENT_VERSION
from nodes.agent.storage import nosuid as guarding
from nodes.agent.storage.mounts import storages_path
from nodes.protocol.accounts import (
    node_account,
    node_account_rules,
    reports_account,
    reports_account_rules,
    url_with_account,
)
from nodes.protocol.envelope import PortalKey
from nodes.protocol.messages import StorageWish
from tests.support.services.disk import full_disk
from tests.support.services.docker_engine import DockerEngine
from tests.support.services.redis_server import RedisServer
from tests.support.services.tls import DAY, Authority, Files


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


@contextmanager
def serving(tls: Files | None = None) -> Iterator[int]:
    """A portal, and its port; with a certificate it speaks TLS."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Portal)
    if tls is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(tls.certificate, tls.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.fixture
def portal(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as port:
        yield f"http://127.0.0.1:{port}"


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
        "BERTH_NODE_LISTENERS_EVERY_S": "0",
    }


def found(environ: dict[str, str], **changes: str) -> dict[str, Finding]:
    told = environ | {f"BERTH_NODE_{name.upper()}": value for name, value in changes.items()}
    return {line.name: line for line in findings([], told)}


def test_every_line_that_is_not_well_has_a_cure(environ: dict[str, str], tmp_path: Path) -> None:
    lines = found(environ, mount_roots=f"{tmp_path}:/mnt/nowhere:/proc")
    assert [line for line in lines.values() if (line.verdict is Verdict.OK) == bool(line.cure)] == []
    assert lines["docker"].verdict is Verdict.FAILED
    assert lines["docker"].cure == "systemctl start docker, or correct BERTH_NODE_DOCKER_URL."
    assert lines["redis"].text == "Nothing listens where Redis at 127.0.0.1:1 should"
    assert lines["redis"].cure.startswith("Start it, open its port, or correct BERTH_NODE_REDIS_URL")
    assert lines["storage /mnt/nowhere"].verdict is Verdict.FAILED
    assert lines[f"storage {tmp_path}"].verdict is Verdict.WARNING
    assert lines["storage /proc"].verdict is Verdict.OK
    for name in ("settings", "key", "driver", "clock", "version"):
        assert lines[name].verdict is Verdict.OK, lines[name]


def test_a_portals_key_that_is_none_is_told_with_what_concerns_the_server_alone(environ: dict[str, str]) -> None:
    lines = found(environ, portal_public_key="none")
    assert lines["settings"].verdict is Verdict.FAILED
    assert lines["settings"].text.startswith("BERTH_NODE_PORTAL_PUBLIC_KEY: 'none' is no key of a portal")
    assert "docker" in lines
    assert "redis" not in lines


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


@pytest.mark.parametrize("url", ["https://berth.example.org:99999", "https://[::1", "berth.example.org"])
def test_an_address_of_the_portal_that_is_none_is_a_line_and_all_else_is_looked_at(
    environ: dict[str, str], url: str
) -> None:
    lines = found(environ, portal_url=url)
    assert lines["settings"].verdict is Verdict.FAILED
    assert lines["settings"].text.startswith(f"BERTH_NODE_PORTAL_URL: {url!r} is no address of a portal")
    assert {"driver", "docker", "address", "ports"} <= lines.keys()


def test_a_certificate_of_the_portal_that_is_not_taken_is_told_with_its_cure(
    environ: dict[str, str], tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "tls")
    for files, words, cure in (
        (
            authority.sign("expired", begins=-2 * DAY, ends=-DAY),
            "has expired",
            "Renew it there (or set this clock right",
        ),
        (authority.sign("early", begins=DAY, ends=2 * DAY), "is not valid yet", "This server's clock says"),
        (
            authority.sign("other", host="portal.example.org"),
            "is for another name",
            "Write the name that it has into BERTH_NODE_PORTAL_URL, or have one made for 127.0.0.1.",
        ),
        (
            Authority(tmp_path / "tls", "stranger").sign("foreign"),
            "is signed by an authority that is not known here (unable to get local issuer certificate)",
            "Name its file in BERTH_NODE_PORTAL_CA.",
        ),
    ):
        with serving(files) as port:
            line = found(environ, portal_url=f"https://127.0.0.1:{port}", portal_ca=str(authority.ca))["portal"]
        assert (line.verdict, line.text) == (
            Verdict.FAILED,
            f"The certificate of the portal at 127.0.0.1:{port} {words}",
        )
        assert line.cure.startswith(cure), line
    with serving(authority.sign("good")) as port:
        lines = found(environ, portal_url=f"https://127.0.0.1:{port}", portal_ca=str(authority.ca))
        assert lines["version"].verdict is Verdict.OK
    line = found(environ, portal_url="https://no..name")["portal"]
    assert line.text == "There is no server named no..name"


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


def test_in_a_container_without_gpus_the_kernel_tells_of_the_driver(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the toolkit is missing no container with GPUs starts, and the driver is not what is wrong."""
    options = replace(options_load([], environ), gpus="nvml")
    version = tmp_path / "proc" / "driver" / "nvidia" / "version"
    version.parent.mkdir(parents=True)
    version.write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\nGCC\n")

    def no_library() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", no_library)
    assert driver_finding(options, root=tmp_path)[0].verdict is Verdict.FAILED, "on the server itself it would be"
    (tmp_path / ".dockerenv").touch()
    line, cards = driver_finding(options, root=tmp_path)
    assert (line.verdict, line.text.split()[0], cards) == (Verdict.WARNING, "580.65.06", Cards(contained=True))
    version.unlink()
    assert driver_finding(options, root=tmp_path)[0].verdict is Verdict.FAILED


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


def test_the_servers_own_settings_are_read_by_a_command_that_somebody_types(
    environ: dict[str, str], tmp_path: Path
) -> None:
    """As systemd gives them to the agent; what the environment says is more."""
    file = tmp_path / "berth-node.env"
    shown = {**environ, "BERTH_NODE_CLUSTER": "lab"}
    file.write_text("# of this server\n\n" + "".join(f'{name}="{value}"\n' for name, value in shown.items()))
    plain = {name: value for name, value in os.environ.items() if not name.startswith("BERTH_")}
    said = subprocess.run(
        [sys.executable, "-m", "nodes", "check", "--json"],
        env={**plain, "BERTH_NODE_SETTINGS": str(file), "BERTH_NODE_CLUSTER": "other"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = {line["name"]: line for line in json.loads(said.stdout)}
    assert lines["settings"]["text"] == "node gpu01 of cluster other"
    assert lines["files"]["text"] == str(file)
    assert lines["docker"]["text"] == f"no Docker Engine answers at unix://{tmp_path}/no.sock"


def test_the_files_that_settings_are_read_from_are_told(environ: dict[str, str], tmp_path: Path) -> None:
    named = environ | {"BERTH_NODE_SETTINGS": str(tmp_path / "server.env")}
    line = found(named)["files"]
    assert line.text == f"neither {tmp_path}/server.env nor {tmp_path}/node.env is there"
    (tmp_path / "node.env").write_text("BERTH_NODE_RACK=3\n")
    assert found(named)["files"].text == f"{tmp_path}/node.env"


def test_a_setting_of_a_file_gives_way_to_the_same_one_as_a_secret_file(tmp_path: Path) -> None:
    (tmp_path / "server.env").write_text("BERTH_NODE_REDIS_URL=redis://127.0.0.1/1\n ;no\nBERTH_NODE_RACK = 3\n")
    environ = {"BERTH_NODE_SETTINGS": str(tmp_path / "server.env"), "BERTH_NODE_REDIS_URL_FILE": "/run/url"}
    assert server_settings(environ) == {"BERTH_NODE_RACK": "3"}
    assert server_settings({"BERTH_NODE_SETTINGS": str(tmp_path / "none")}) == {}


def room(environ: dict[str, str], docker_root: Path, **changes: str) -> dict[str, Finding]:
    return {line.name: line for line in disk_findings(options(environ, **changes), str(docker_root))}


def options(environ: dict[str, str], **changes: str) -> Options:
    return options_load([], environ | {f"BERTH_NODE_{name.upper()}": value for name, value in changes.items()})


def test_disks_are_judged_by_the_servers_own_percentages(environ: dict[str, str], tmp_path: Path) -> None:
    (line,) = room(environ, tmp_path, disk_clean_percent="0", disk_full_percent="0").values()
    assert (line.name, line.verdict) == ("disk", Verdict.OK), "one disk for both is told once"
    (line,) = room(environ, tmp_path, disk_clean_percent="100", disk_full_percent="0").values()
    assert (line.verdict, "docker system prune" in line.cure) == (Verdict.WARNING, True)
    (line,) = room(environ, tmp_path, disk_clean_percent="0", disk_full_percent="100").values()
    assert (line.verdict, line.cure.endswith("Below 100 % nothing new starts.")) == (Verdict.FAILED, True)


@pytest.mark.docker
def test_the_disk_with_the_logs_is_looked_at_beside_dockers(environ: dict[str, str], tmp_path: Path) -> None:
    with full_disk(tmp_path / "state") as state:
        lines = room(environ, tmp_path, state_dir=f"{state}/berth-node", disk_clean_percent="0")
    assert lines["disk"].text.endswith(f"free at {tmp_path}")
    assert lines["state disk"] == Finding(
        "state disk", Verdict.FAILED, f"0 % of 0 GB free at {state}",
        "Make room: logs that wait for the portal and code are kept there. Below 5 % nothing new starts.",
    )  # fmt: skip


@pytest.mark.docker
def test_a_file_server_that_is_away_holds_the_check_up_for_its_patience_only(
    environ: dict[str, str], tmp_path: Path
) -> None:
    """Mounted by `bindfs`, whose process is frozen: who looks at it hangs, as with NFS."""
    own = tmp_path / "mnt"
    for name in ("data", "well"):
        (tmp_path / name).mkdir()
        (own / name).mkdir(parents=True)
        subprocess.run(["bindfs", tmp_path / name, own / name], check=True)
    served = next(one for one in psutil.process_iter(["cmdline"]) if str(own / "data") in (one.info["cmdline"] or ()))
    there = options(environ, mount_roots=str(own / "data"), nfs_servers="filer,10.1.0.*", nfs_root=str(own))
    (tmp_path / "mount.nfs").touch(mode=0o755)
    served.suspend()
    began = time.monotonic()
    try:
        lines = [*storage_findings(there, helpers=str(tmp_path), timeout_s=0.5)]
    finally:
        served.resume()
        for name in ("data", "well"):
            subprocess.run(["umount", "--lazy", own / name], check=True)
    assert time.monotonic() - began < 5
    away = Finding(
        f"storage {own}/data", Verdict.FAILED, "does not answer: its file server is away",
        f"Bring its file server back, or give it up: umount --lazy {own}/data",
    )  # fmt: skip
    assert lines == [
        away, Finding("nfs", Verdict.OK, f"from filer, 10.1.0.*, below {own}"), away,
        Finding(f"storage {own}/well", Verdict.OK, f"{tmp_path}/well answers"),
    ]  # fmt: skip


def test_a_server_that_shall_mount_nfs_and_cannot_is_told(environ: dict[str, str], tmp_path: Path) -> None:
    (line,) = storage_findings(options(environ, nfs_servers="filer"), helpers=str(tmp_path))
    assert (line.name, line.verdict) == ("nfs", Verdict.FAILED)
    assert line.cure.startswith("Install nfs-common")
    assert [*storage_findings(options(environ), helpers=str(tmp_path))] == []


@pytest.mark.docker
def test_a_storage_in_which_setuid_programs_count_is_told_with_what_to_do(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, read = tmp_path / "data", tmp_path / "read"
    data.mkdir()
    wishes = [StorageWish(name="data", root=str(data)), StorageWish(name="read", root=str(read), read_only=True)]
    storages_path(tmp_path).write_bytes(msgspec.json.encode(wishes))
    there = options(environ, mount_roots=str(tmp_path))

    def line() -> tuple[Verdict, str]:
        _, found = storage_findings(there)
        assert found.name == f"setuid {data}"
        return found.verdict, found.cure

    assert line() == (Verdict.WARNING, "The agent sees to it within 15 s of its start.")
    monkeypatch.setattr(guarding, "SERVERS_MOUNTS", "/proc/self/ns/net")  # the agent's are others
    verdict, told = line()
    assert verdict is Verdict.FAILED
    assert f"`{data} {data} none rbind,nosuid,nodev 0 0`" in told
    subprocess.run(f"mount --bind {data} {data} && mount -o remount,bind,nosuid,nodev {data}", shell=True, check=True)
    try:
        assert line() == (Verdict.OK, "")
    finally:
        subprocess.run(["umount", data], check=True)


def test_a_policy_that_cannot_be_obeyed_is_told_and_a_good_ones_storages_are_looked_at(
    environ: dict[str, str], tmp_path: Path
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('mount_roots = ["/proc"]')
    assert [line.name for line in storage_findings(options(environ, policy_file=str(policy)))] == ["storage /proc"]
    policy.write_text('mounts = ["/proc"]')
    (line,) = storage_findings(options(environ, policy_file=str(policy)))
    assert (line.name, line.verdict, line.text) == ("policy", Verdict.FAILED, f"{policy} has unknown words: mounts")


@pytest.mark.redis
def test_redis_is_tried_by_both_of_the_nodes_accounts(redis_server: RedisServer) -> None:
    url = url_with_account(redis_server.url, account=node_account("gpu01"), password="right")
    accounts = {node_account("gpu01"): node_account_rules("gpu01"), reports_account("gpu01"): reports_account_rules()}
    with redis_server.client() as root:
        for account, rules in accounts.items():
            assert redis_finding(url, "gpu01").verdict is Verdict.FAILED
            root.execute_command("ACL", "SETUSER", account, "reset", "on", ">right", *rules)
        assert redis_finding(url, "gpu01").verdict is Verdict.OK
        for account in accounts:
            root.acl_deluser(account)
    assert redis_finding(redis_server.url, "gpu01").verdict is Verdict.WARNING, "an account that may do everything"


def test_an_engine_that_anybody_may_ask_is_told_as_long_as_somebody_insists(environ: dict[str, str]) -> None:
    insists = "i_accept_that_every_job_can_become_root"
    line = found(environ, docker_url="tcp://127.0.0.1:1", docker_without_tls=insists)["engine guard"]
    assert line.verdict is Verdict.WARNING
    assert "jobs may become root" in line.text


@pytest.mark.docker
def test_a_real_engine_is_looked_at(environ: dict[str, str], docker_engine: DockerEngine) -> None:
    there = options(environ, docker_url=docker_engine.url)
    lines = {line.name: line for line in machine_findings(there)}
    assert lines["docker"].verdict is Verdict.OK
    assert lines["cgroup"].text.startswith("version ")
    assert lines["live-restore"].verdict is Verdict.OK
    assert lines["disk"].text.endswith(f"free at {docker_engine.folder}/data")
    without = {line.name for line in machine_findings(replace(there, runtime="process"))}
    assert {"docker", "disk"} <= without
    assert "cgroup" not in without
