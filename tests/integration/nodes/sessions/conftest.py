"""Agents of both runtimes that allow three shells, and a Redis client as the portal has one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from redis import Redis

from nodes.protocol.states import ContainerState
from tests.integration.nodes.conftest import MakePortal, make_portal, runtime
from tests.integration.nodes.conftest import runtime_env as plain_runtime_env
from tests.support.cluster.portal_side import PortalSide
from tests.support.run.waiting import wait_until

__all__ = ["make_portal", "plain_runtime_env", "runtime"]

SHELLS = 3


@pytest.fixture(scope="module")
def runtime_env(plain_runtime_env: dict[str, str]) -> dict[str, str]:
    return {**plain_runtime_env, "BERTH_NODE_SHELLS": str(SHELLS)}


@pytest.fixture
def redis(portal: PortalSide) -> Iterator[Redis]:
    with portal.redis.client() as client:
        yield client


@pytest.fixture(scope="module")
def portal_of_module(make_portal: MakePortal) -> Iterator[PortalSide]:
    made = make_portal()
    yield made
    made.clear()


@pytest.fixture
def portal(portal_of_module: PortalSide) -> PortalSide:
    """The portal's end for a node whose agent runs; the task of the last test may still run there."""
    if not portal_of_module.agent.is_running():
        start_again(portal_of_module)
    return portal_of_module


def start_again(portal: PortalSide) -> None:
    """Starts the agent, and waits for a report of this very start."""
    boot = portal.reports[-1].boot
    portal.start()
    wait_until(lambda: (report := portal.poll()) and report.boot > boot, "the new agent's report")


@pytest.fixture
def task(portal: PortalSide) -> str:
    """A running task, the last test's where it still runs."""
    for container in portal.reports[-1].containers:
        if container.state is ContainerState.RUNNING:
            return container.attempt
    attempt = portal.run("trap 'exit 0' TERM; echo ready; while :; do sleep 0.1; done")
    portal.wait_state(attempt, ContainerState.RUNNING)
    return attempt
