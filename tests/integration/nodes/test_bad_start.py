"""An agent, or one of its commands, that cannot start says why in one sentence with its cure, and ends with 2."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
import structlog
from celery import Celery
from structlog.testing import capture_logs

from nodes.agent.attempts.orders import tasks_register
from nodes.agent.clock import SystemClock
from nodes.agent.config.options import key_make
from nodes.agent.hardware.gpus.base import GpusUnavailable
from nodes.agent.hardware.gpus.choice import backend_from
from nodes.agent.hardware.inventory import AGENT_VERSION
from nodes.agent.log_throttle import AGAIN_S, LogThrottle
from nodes.agent.write_error import NoRoomOnce
from nodes.protocol.envelope import Envelope, PortalKey, envelope_seal
from nodes.protocol.messages import Desired, encode
from nodes.protocol.names import DESIRED_TASK
from tests.support.run.waiting import wait_until
from tests.support.services.disk import fill, full_disk

ROOT = Path(__file__).parents[3]
NO_ROOM = "no room is left on its disk"
AGENT = {
    "NODE_NAME": "gpu01",
    "NODE_REDIS_URL": "redis://127.0.0.1:1/0",
    "NODE_PORTAL_PUBLIC_KEY": PortalKey.generate().public,
    "NODE_RUNTIME": "process",
    "NODE_GPUS": "simulated:1xA100-80GB",
    "NODE_LISTENERS_EVERY_S": "0",
}


def said(*words: str, **told: str) -> str:
    """What `berth-node …` prints that ends with 2, beside its log, in which Redis may be missed first."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("BERTH_")}
    environ = plain | {f"BERTH_{name}": value for name, value in told.items()}
    done = subprocess.run(
        [sys.executable, "-m", "nodes", *words], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, ""), done.stdout + done.stderr
    return "".join(line for line in done.stderr.splitlines(True) if not line.startswith("timestamp="))


@pytest.mark.docker  # as root, who may mount
def test_a_full_disk_is_told_by_the_agent_and_by_join(tmp_path: Path) -> None:
    key_make(tmp_path / "node.key")
    with full_disk(tmp_path / "state") as state:
        told = {"NODE_STATE_DIR": str(state), "NODE_KEY_FILE": str(tmp_path / "node.key")}
        cure = f"cannot be written: {NO_ROOM}: make room there, or name a folder on another in "
        for line in (said(**told, **AGENT), said("join", "http://127.0.0.1:1", "token", NODE_STATE_DIR=str(state))):
            assert line.startswith(f"berth-node: {state}"), line
            assert line.endswith(f"{cure}BERTH_NODE_STATE_DIR.\n")
            assert line.count("\n") == 1


@pytest.mark.docker  # as root, who may mount
def test_a_full_disk_keeps_no_agent_from_starting_that_has_started_before(tmp_path: Path) -> None:
    """Its containers run on, and somebody must watch them."""
    key_make(tmp_path / "node.key")
    away = "reports are not sent"  # by then all has been written that is written at a start
    with full_disk(tmp_path / "state") as state:
        environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("BERTH_")},
            "BERTH_NODE_STATE_DIR": str(state),
            "BERTH_NODE_KEY_FILE": str(tmp_path / "node.key"),
            **{f"BERTH_{name}": value for name, value in AGENT.items()},
        }
        (state / "ballast").unlink()
        assert NO_ROOM not in started_until(away, environ, tmp_path / "first.log")
        fill(state)
        told = started_until(away, environ, tmp_path / "second.log")
    assert told.count(NO_ROOM) == 1, told
    assert "Traceback" not in told


def started_until(said: str, environ: dict[str, str], log: Path) -> str:
    """What an agent says until it has said this, and is ended."""
    with log.open("w") as file:
        agent = subprocess.Popen([sys.executable, "-m", "nodes"], cwd=ROOT, env=environ, stdout=file, stderr=file)
    try:
        wait_until(lambda: agent.poll() is not None or said in log.read_text(), said, deadline_s=60)
        assert agent.poll() is None, log.read_text()
    finally:
        agent.terminate()
        agent.wait(20)
    return log.read_text()


def test_an_authority_that_is_none_is_told_before_anything_is_asked(tmp_path: Path) -> None:
    line = said("join", "https://127.0.0.1:1", "token", "--ca", str(tmp_path / "none.pem"), "--name", "gpu01")
    assert line.startswith(f"berth-node: BERTH_JOIN_CA: {tmp_path}/none.pem is no file of certificates in PEM: ")


def test_an_address_that_is_none_is_told_by_the_agent_and_by_its_commands(tmp_path: Path) -> None:
    asked = {"JOIN_URL": "https://x:99999", "JOIN_TOKEN": "token", "NODE_STATE_DIR": str(tmp_path / "state")}
    told = "'https://x:99999' is no address of a portal, such as https://berth.example.org: "
    for line in (said(**asked), said("join", **asked), said("join", "https://x:99999", "token")):
        assert line == f"berth-node: BERTH_JOIN_URL: {told}its port is no number from 1 to 65535\n"
    assert said(**AGENT, NODE_PORTAL_URL="https://x:99999") == (
        f"berth-node: BERTH_NODE_PORTAL_URL: {told}its port is no number from 1 to 65535\n"
    )
    line = said("check", **AGENT, NODE_DOCKER_URL="tcp://127.0.0.1:99999")
    assert line.startswith(
        "berth-node: BERTH_NODE_DOCKER_URL: 'tcp://127.0.0.1:99999' is no address of a Docker Engine"
    )


def test_an_engine_over_the_network_is_refused_by_the_agent_and_by_check() -> None:
    for command in ((), ("check",)):
        line = said(*command, **{**AGENT, "NODE_RUNTIME": "docker", "NODE_DOCKER_URL": "tcp://127.0.0.1:2375"})
        assert line.startswith("berth-node: BERTH_NODE_DOCKER_URL: leads to the Docker Engine over the network without")
        assert line.count("\n") == 1


def test_without_a_driver_a_server_with_cards_offers_nothing_and_one_without_says_that_it_simulates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pynvml

    def no_library(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file: No such file or directory")

    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "CDLL", no_library)  # as on a server without a driver, wherever this is tested
    cure = "install NVIDIA's driver (nvidia-smi must list the GPUs), or declare simulated ones in BERTH_NODE_GPUS"
    why = "the NVIDIA driver does not answer: NVML Shared Library Not Found"
    with pytest.raises(GpusUnavailable) as refused:
        backend_from("nvml", node="gpu01", held=dict)
    assert str(refused.value) == f"{why}: {cure}."
    for number, (vendor, what) in enumerate((("0x10de", "0x030200"), ("0x10de", "0x040300"), ("0x8086", "0x030000"))):
        device = tmp_path / f"0000:0{number}:00.0"
        device.mkdir()
        (device / "vendor").write_text(f"{vendor}\n")
        (device / "class").write_text(f"{what}\n")
    with pytest.raises(GpusUnavailable) as refused:
        backend_from("auto", node="gpu01", held=dict, pci_devices=tmp_path)
    assert str(refused.value) == f"this server has 1 NVIDIA cards, and {why}: {cure}."
    for setting, devices in (("demo", tmp_path), ("auto", tmp_path / "none")):
        with capture_logs() as lines:
            assert backend_from(setting, node="gpu01", held=dict, pci_devices=devices).simulated
        assert [(line["log_level"], line["reason"], line["cure"]) for line in lines] == [("warning", why, cure)]


def test_orders_that_it_cannot_read_are_told_once_with_the_cure() -> None:
    key, app = PortalKey.generate(), Celery("old", set_as_current=False)
    taken: list[object] = []
    tasks_register(app, node="gpu01", portal_public_key=key.public, clock=SystemClock(), take=taken.append)
    soon = SystemClock().now_ms() + 15_000
    body = msgspec.json.encode({"cluster": "berth", "node": "gpu01", "generation": 1, "version": 9}).decode()
    with capture_logs() as lines:
        for _ in range(3):
            app.tasks[DESIRED_TASK](envelope_seal(key, Envelope("portal", "gpu01", "desired", soon, body)))
    assert taken == []
    assert [line["reason"] for line in lines] == [
        f"they cannot be read by this agent of version {AGENT_VERSION} (Object missing required field `orders`): "
        "install the agent of the portal's release here (berth-node check names it)"
    ]


def test_orders_that_another_portal_signed_are_told_once_with_the_setting_and_the_cure() -> None:
    key, app = PortalKey.generate(), Celery("foreign", set_as_current=False)
    taken: list[Desired] = []
    tasks_register(
        app, node="gpu01", portal_public_key=PortalKey.generate().public, clock=SystemClock(), take=taken.append
    )
    soon = SystemClock().now_ms() + 15_000
    body = encode(Desired(cluster="berth", node="gpu01", generation=1, orders=())).decode()
    with capture_logs() as lines:
        for _ in range(3):
            app.tasks[DESIRED_TASK](envelope_seal(key, Envelope("portal", "gpu01", "desired", soon, body)))
    assert taken == []
    assert [line["reason"] for line in lines] == [
        "they are signed by another key than BERTH_NODE_PORTAL_PUBLIC_KEY: the portal has a new one, or another portal "
        "sends them; let this server join again (berth-node join URL TOKEN)"
    ]


def test_what_stays_is_said_again_after_a_while_and_what_comes_anew_at_once() -> None:
    now = [0.0]
    throttle = LogThrottle(lambda: now[0])
    heard = []
    for at, why in ((0, "expired 5 s ago"), (1, "expired 6 s ago"), (2, "no server"), (3, "no server")):
        now[0] = at
        heard.append(throttle.new(why))
    now[0] = 2 + AGAIN_S
    heard.append(throttle.new("no server"))
    assert heard == [True, False, True, False, True]
    assert throttle.over()
    assert not throttle.over()
    assert throttle.new("no server")


def test_what_fails_again_and_again_since_a_disk_is_full_is_said_once_without_a_traceback() -> None:
    once, said = NoRoomOnce(Path("/var/lib/berth-node")), []
    failures = [OSError(errno.ENOSPC, "No space left"), OSError(errno.ENOSPC, "No space left"), KeyError("ours")]
    for failure in failures:
        try:
            raise failure
        except Exception:
            with suppress(structlog.DropEvent):
                said.append(dict(once(None, "error", {"event": "step failed", "exc_info": True})))
    assert said == [
        {
            "event": "step failed",
            "reason": "/var/lib/berth-node cannot be written: no room is left on its disk: make room there, or name a "
            "folder on another in BERTH_NODE_STATE_DIR.",
        },
        {"event": "step failed", "exc_info": True},
    ]
