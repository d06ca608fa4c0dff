"""Agents of both runtimes, and a Redis client as the portal has one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from redis import Redis

from tests.nodes.conftest import make_portal, portal, portal_of_module, runtime, runtime_env
from tests.nodes.portal_side import PortalSide

__all__ = ["make_portal", "portal", "portal_of_module", "runtime", "runtime_env"]


@pytest.fixture
def redis(portal: PortalSide) -> Iterator[Redis]:
    with portal.redis.client() as client:
        yield client


@pytest.fixture
def task(portal: PortalSide) -> str:
    """A running task."""
    attempt = portal.run("trap 'exit 0' TERM; echo ready; while :; do sleep 0.1; done")
    portal.wait(attempt, lambda container: container.log_end > 0)
    return attempt
