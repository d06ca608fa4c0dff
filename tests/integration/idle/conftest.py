"""A job that runs on four GPUs, and how long these have been idle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.cluster.idle_scenes import Scene
    from tests.support.cluster.world import World


@pytest.fixture
def scene(world: World) -> Scene:
    from tests.support.cluster.idle_scenes import Scene

    return Scene(world)
