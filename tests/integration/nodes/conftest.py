"""Agents as real processes, their portal's end of the lanes, and a real Redis between them.

One agent per runtime serves all tests of a module; each test leaves it without tasks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.cluster.portal_side import PortalSide
from tests.support.cluster.supervised_node import Node
from tests.support.services.redis_server import RedisServer
from tests.support.services.services import Services

_numbers = itertools.count(1)
MakePortal = Callable[[], PortalSide]


@pytest.fixture(scope="module", params=["process", pytest.param("docker", marks=pytest.mark.docker)])
def runtime(request: pytest.FixtureRequest) -> str:
    """Each test that uses it runs on both runtimes."""
    return str(request.param)


@pytest.fixture(scope="module")
def runtime_env(runtime: str, request: pytest.FixtureRequest) -> dict[str, str]:
    """What tells an agent its runtime; for Docker, an Engine of the tests' own."""
    if runtime == "process":
        return {"BERTH_NODE_RUNTIME": "process"}
    engine = request.getfixturevalue("running_docker")
    return {"BERTH_NODE_RUNTIME": "docker", "BERTH_NODE_DOCKER_URL": engine.url}


@pytest.fixture(scope="module")
def make_portal(services: Services, running_redis: RedisServer, runtime_env: dict[str, str]) -> Iterator[MakePortal]:
    """Makes a portal's end for one more node and starts its agent; both end with the module."""
    made: list[PortalSide] = []

    def make() -> PortalSide:
        folder = services.new_folder("agent")
        portal = PortalSide(
            running_redis, folder, services.guard, runtime_env, services.agents, name=f"gpu{next(_numbers)}"
        )
        made.append(portal)
        portal.start()
        return portal

    yield make
    for portal in made:
        portal.agent.stop()


@pytest.fixture(scope="module")
def portal_of_module(make_portal: MakePortal) -> PortalSide:
    return make_portal()


@pytest.fixture
def portal(portal_of_module: PortalSide) -> Iterator[PortalSide]:
    """The portal's end for a node whose agent runs and has no tasks."""
    yield portal_of_module
    portal_of_module.clear()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node whose lives a test begins itself, with a runtime in memory."""
    return Node(tmp_path)
