"""A small cluster, and its user's browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.cluster.world import World
    from tests.support.people.pages import Browser


@pytest.fixture
def world(db: None) -> World:
    """One node of eight GPUs, all of them the team's."""
    from tests.support.cluster.world import World

    made = World()
    made.node("gpu01", gpus=8)
    return made


@pytest.fixture
def browser(world: World) -> Browser:
    from tests.support.people.pages import Browser

    return Browser(world.user)
