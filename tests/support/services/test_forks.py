"""Forks in place of processes that start by themselves: for whoever has started them, they are the same."""

import os
import signal
import sys
from pathlib import Path

import pytest

from nodes.agent.config.options import key_make
from tests.support.run.waiting import wait_until
from tests.support.services.forks import Forks
from tests.support.services.processes import Process, free_port
from tests.support.services.services import Services


@pytest.fixture
def agents(services: Services) -> Forks:
    assert services.agents
    return services.agents


def agent(services: Services, folder: Path, forks: Forks | None, *words: str, **env: str) -> Process:
    command = [sys.executable, "-m", "nodes", *words]
    return services.new_process("agent", command, folder, {"PATH": os.environ["PATH"], **env}, forks)


def test_a_fork_is_what_was_asked_for_and_ends_as_that_ends(services: Services, agents: Forks, tmp_path: Path) -> None:
    key = key_make(tmp_path / "node.key").public
    asked = agent(services, tmp_path, agents, "key", BERTH_NODE_STATE_DIR=str(tmp_path))
    asked.start()
    assert asked.wait_exit() == 0
    assert asked.tail() == f"[agent] {key}"
    for forks in (agents, None):
        refused = agent(services, tmp_path, forks, BERTH_NODE_NAME="gpu01")
        refused.start()
        assert refused.wait_exit() == 2
        assert "BERTH_NODE_REDIS_URL: is not set" in refused.tail()
    *_, forked, started = refused.log.read_text().splitlines()
    assert forked == started


def test_a_fork_is_suspended_ended_and_killed_as_any_process(services: Services, agents: Forks, tmp_path: Path) -> None:
    key = key_make(tmp_path / "node.key").public
    runs = agent(
        services, tmp_path, agents, BERTH_NODE_NAME="gpu01", BERTH_NODE_STATE_DIR=str(tmp_path),
        BERTH_NODE_REDIS_URL=f"redis://127.0.0.1:{free_port()}/0", BERTH_NODE_PORTAL_PUBLIC_KEY=key,
        BERTH_NODE_RUNTIME="process", BERTH_NODE_GPUS="simulated:1xA100-80GB",
    )  # fmt: skip
    _begun(runs)
    assert os.getsid(runs.pid) == runs.pid
    runs.suspend()
    wait_until(lambda: _status(runs.pid)["State"].startswith("T"), "it to stand still")
    runs.resume()
    assert runs.is_running()
    runs.kill()
    assert runs.wait_exit() == -signal.SIGKILL
    _begun(runs)
    assert runs.stop() == 0


def _begun(runs: Process) -> None:
    """Starts it, and waits until it would end in good order."""
    runs.start()
    wait_until(lambda: int(_status(runs.pid)["SigCgt"], 16) >> (signal.SIGTERM - 1) & 1, "it to take SIGTERM")


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def test_settings_that_were_read_already_are_for_no_other_environment(services: Services, tmp_path: Path) -> None:
    mine = {"PATH": os.environ["PATH"], "BERTH_DATA_DIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "portal.settings"}
    forks = services.portal(tmp_path, mine)
    assert forks
    assert forks.fits(mine)
    assert not forks.fits({**mine, "BERTH_GRACE_PERIOD": "2"})
    assert not forks.fits({})
    assert not forks.fits(mine, tmp_path), "there may be other sources"
    forks.close()
