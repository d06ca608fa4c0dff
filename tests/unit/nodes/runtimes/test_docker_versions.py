"""Engines of other versions than the one here: what they tell, and in which version of their API they are asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

from nodes.agent.runtimes.base import RuntimeUnavailable
from nodes.agent.runtimes.docker.client import engine_client
from nodes.agent.runtimes.docker.lost_exits import status_lost
from nodes.agent.runtimes.docker.runtime import DockerRuntime
from nodes.protocol.names import container_name
from tests.support.services.scripted_engine import ScriptedEngine

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
CONTAINER = "c" * 64
ENDED_BY_ITSELF = {
    "Id": CONTAINER,
    "State": {
        "ExitCode": 0,
        "StartedAt": (NOW - timedelta(hours=9)).isoformat(),
        "FinishedAt": (NOW - timedelta(seconds=40)).isoformat(),
    },
}
DIED = {"Type": "container", "Action": "die", "Actor": {"ID": CONTAINER, "Attributes": {"exitCode": "0"}}}
Engines = Callable[[dict[str, Any]], ScriptedEngine]


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[Engines]:
    with ExitStack() as stack:
        yield lambda answers: stack.enter_context(closing(ScriptedEngine(tmp_path, answers)))


@pytest.mark.parametrize("older", [{}, {"status": "die", "id": CONTAINER, "from": "busybox"}], ids=["1.52", "1.51"])
def test_an_end_that_the_engine_tells_in_its_events_is_the_programs_in_every_version(
    engines: Engines, older: dict[str, str]
) -> None:
    """Half a minute after its restart, when it reads the pipes of all containers again."""
    told = {"GET /info": (200, {"SystemTime": NOW.isoformat()}), "GET /events": (200, (DIED | older,))}
    engine = engines(told)
    with closing(engine_client(engine.url, timeout=5)) as client:
        assert not status_lost(client, ENDED_BY_ITSELF, 60.0)
        engine.answers["GET /events"] = (200, (DIED | {"Actor": {"ID": "d" * 64}},))
        assert status_lost(client, ENDED_BY_ITSELF, 60.0), "another's end"


@pytest.mark.parametrize(
    ("oldest", "newest", "asked"),
    [("1.12", "1.41", "1.41"), ("1.44", "1.51", "1.51"), ("1.44", "1.53", "1.51"), ("1.52", "1.60", "1.52")],
    ids=["an older one", "the newest known", "a newer one", "one that has forgotten the newest known"],
)
def test_an_engine_is_asked_in_no_newer_version_than_this_code_knows(
    engines: Engines, tmp_path: Path, oldest: str, newest: str, asked: str
) -> None:
    engine = engines({"GET /version": (200, {"ApiVersion": newest, "MinAPIVersion": oldest})})
    engine.answers["GET /containers/json"] = (200, [])
    engine.answers["GET /info"] = (200, {"ServerVersion": "29"})
    runtime = DockerRuntime(
        cluster="berth", node="gpu01", url=engine.url, gpus=tuple, simulated=True, raises_limits=False,
        notices=tmp_path, workspaces=tmp_path, images=tmp_path / "images.json",
    )  # fmt: skip
    with closing(runtime):
        assert runtime.found() == {}
        assert runtime.facts().engine == "docker 29"
    lines = [line for line in engine.seen if line != "GET /version"]
    assert len(lines) == 2
    assert all(line.startswith(f"GET /v{asked}/") for line in lines), lines


KILL = f"POST /containers/{container_name('a-1')}/kill"
IN_VAIN = "Cannot kill container: a-1: tried to kill container, but did not receive an exit event"
"""So says Engine 20.10.24, twelve seconds after the signal."""


def test_a_sigkill_that_ends_nothing_got_through_and_one_that_containerd_did_not_take_did_not(
    engines: Engines, tmp_path: Path
) -> None:
    engine = engines({KILL: (500, {"message": IN_VAIN})})
    runtime = DockerRuntime(
        cluster="berth", node="gpu01", url=engine.url, gpus=tuple, simulated=True, raises_limits=False,
        notices=tmp_path, workspaces=tmp_path, images=tmp_path / "images.json",
    )  # fmt: skip
    with closing(runtime):
        runtime.signal("a-1", SIGKILL)
        engine.answers[KILL] = (500, {"message": "connection error: desc = transport is closing: unavailable"})
        with pytest.raises(RuntimeUnavailable):
            runtime.signal("a-1", SIGKILL)
