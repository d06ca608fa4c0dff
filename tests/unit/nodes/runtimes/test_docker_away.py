"""An Engine that does not answer: one sentence with its address and the cure, and said once."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import sleep

import pytest
import requests
from structlog.testing import capture_logs

from nodes.agent.logs.base import Position
from nodes.agent.runtimes.base import RuntimeUnavailable
from nodes.agent.runtimes.docker.client import engine_client
from nodes.agent.runtimes.docker.faults import EngineUnavailable, engine_unavailable
from nodes.agent.runtimes.docker.runtime import DockerRuntime
from tests.support.run.waiting import wait_until
from tests.support.services.scripted_engine import ScriptedEngine

START = "systemctl start docker, or correct BERTH_NODE_DOCKER_URL"


def runtime_at(url: str, folder: Path) -> DockerRuntime:
    return DockerRuntime(
        cluster="berth", node="gpu01", url=url, gpus=tuple, simulated=True, raises_limits=True,
        notices=folder, workspaces=folder, images=folder / "images.json",
    )  # fmt: skip


@contextmanager
def bound(path: Path, *, listens: bool) -> Iterator[str]:
    """A socket at which nobody answers."""
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(path))
        if listens:
            engine.listen()
        yield f"unix://{path}"


def said(url: str) -> str:
    with pytest.raises(EngineUnavailable) as away:
        engine_client(url, timeout=1).close()
    return str(away.value)


def test_each_cause_is_one_sentence_that_names_the_address(tmp_path: Path) -> None:
    nowhere = f"unix://{tmp_path}/no.sock"
    assert said(nowhere) == f"no Docker Engine answers at {nowhere}: {START}"
    with bound(tmp_path / "closed.sock", listens=False) as url:
        assert said(url) == f"no Docker Engine answers at {url}: {START}"
    assert said("tcp://127.0.0.1:1") == f"no Docker Engine answers at tcp://127.0.0.1:1: {START}"
    with bound(tmp_path / "silent.sock", listens=True) as url:
        told = f"the Docker Engine at {url} does not answer in time"
        assert said(url) == f"{told}: systemctl status docker and journalctl -u docker tell why"
    with closing(ScriptedEngine(tmp_path, {"GET /version": (200, {"Version": "1"})})) as other:
        assert said(other.url) == f"what answers at {other.url} is no Docker Engine: correct BERTH_NODE_DOCKER_URL"


def test_a_socket_that_the_agent_may_not_open_is_told_as_that() -> None:
    refused = requests.ConnectionError("Connection aborted.")
    refused.__cause__ = PermissionError(13, "Permission denied")
    away = engine_unavailable("unix:///run/docker.sock", refused)
    assert away.what == "this agent may not open the Docker Engine's socket at unix:///run/docker.sock"
    assert str(away) == f"{away.what}: run the agent as root, or in the group of that socket (docker)"


def test_whatever_is_asked_of_the_runtime_raises_the_whole_sentence(tmp_path: Path) -> None:
    nowhere = f"unix://{tmp_path}/no.sock"
    runtime = runtime_at(nowhere, tmp_path)
    calls: list[Callable[[], object]] = [
        runtime.found, runtime.facts, runtime.store, runtime.end_leftover_shells,
        lambda: runtime.find("a-1"), lambda: runtime.remove("a-1"), lambda: runtime.signal("a-1", 15),
        lambda: list(runtime.source("a-1").frames(Position())),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(RuntimeUnavailable) as away:
            call()
        assert str(away.value) == f"no Docker Engine answers at {nowhere}: {START}"


def test_an_engine_that_ends_while_the_agent_runs_is_told_in_the_same_words(tmp_path: Path) -> None:
    engine = ScriptedEngine(tmp_path, {"GET /info": (200, {"ServerVersion": "29"})})
    runtime = runtime_at(engine.url, tmp_path)
    assert runtime.facts().engine == "docker 29"
    engine.close()
    with pytest.raises(RuntimeUnavailable) as away:
        runtime.facts()
    assert str(away.value) == f"no Docker Engine answers at {engine.url}: {START}"


def test_that_its_events_broke_off_is_said_once_and_anew_after_it_had_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodes.agent.runtimes.docker.events.RETRY_S", 0.01)
    url = f"unix://{tmp_path}/scripted.sock"
    with capture_logs() as lines, closing(runtime_at(url, tmp_path)) as runtime:
        runtime.watch(lambda attempt: None)
        for number in range(1, 3):
            wait_until(lambda: lines, "the line")
            sleep(0.5)
            assert [line["error"] for line in lines] == [f"no Docker Engine answers at {url}: {START}"], number
            with closing(ScriptedEngine(tmp_path, {"GET /events": (200, ())})) as engine:
                wait_until(lambda: engine.seen[5:], "events that are asked for")
                lines.clear()
            (tmp_path / "scripted.sock").unlink()
