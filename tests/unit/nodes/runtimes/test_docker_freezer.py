"""A container is paused for its log, or because it is parked; neither undoes the other's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodes.agent.runtimes.base import LimitRefused, RuntimeUnavailable
from nodes.agent.runtimes.docker.engine import Engine
from nodes.agent.runtimes.docker.freezer import DockerFreezer
from nodes.protocol.names import LABEL
from tests.support.services.scripted_engine import ScriptedEngine

PID = 2**30
"""Of a process that nobody sees from here."""


def details(*drivers: str) -> dict[str, Any]:
    return {
        "Id": "1b",
        "State": {"Running": True, "Pid": PID},
        "Config": {"Labels": {LABEL.CLUSTER: "berth", LABEL.NODE: "gpu01"}},
        "HostConfig": {"DeviceRequests": [{"Driver": driver} for driver in drivers]},
    }


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[ScriptedEngine]:
    engine = ScriptedEngine(
        tmp_path,
        {
            "POST /containers/[^/]+/(pause|unpause)": (200, {}),
            "GET /containers/[^/]+/json": (200, details("cdi")),
            "POST /containers/1b/update": (200, {"Warnings": None}),
        },
    )
    yield engine
    engine.close()


@pytest.fixture
def freezer(scripted: ScriptedEngine) -> DockerFreezer:
    return DockerFreezer(Engine(scripted.url, None, cluster="berth", node="gpu01"))


def asked(engine: ScriptedEngine) -> list[str]:
    return [word for line in engine.seen for word in re.findall(r"/(pause|unpause|update)\b", line)]


def test_a_log_neither_pauses_a_task_on_its_way_nor_wakes_a_parked_one(
    scripted: ScriptedEngine, freezer: DockerFreezer
) -> None:
    freezer.log_freeze("a")
    freezer.thaw("a")
    with pytest.raises(RuntimeUnavailable):
        freezer.log_freeze("a")
    freezer.freeze("a")
    freezer.log_thaw("a")
    assert asked(scripted) == ["pause", "unpause", "pause"]
    freezer.release("a")
    freezer.log_thaw("a")
    freezer.log_freeze("a")
    assert asked(scripted)[3:] == ["unpause", "pause"]


def test_memory_limits_are_the_engines_matter_only_where_gpus_came_by_cdi(
    scripted: ScriptedEngine, freezer: DockerFreezer
) -> None:
    freezer.set_memory("a", 4096)
    assert asked(scripted) == ["update"]
    scripted.answers["GET /containers/[^/]+/json"] = (200, details("nvidia"))
    with pytest.raises(LimitRefused):
        freezer.set_memory("a", 4096)
    assert asked(scripted) == ["update"], "which would take its GPUs"
