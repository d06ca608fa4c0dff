"""A small cluster, and its user's browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.pages import Browser
    from tests.support.world import World


@pytest.fixture
def world(db: None) -> World:
    """One node of eight GPUs, all of them the team's."""
    from tests.support.world import World

    made = World()
    made.node("gpu01", gpus=8)
    return made


@pytest.fixture
def browser(world: World) -> Browser:
    from tests.support.pages import Browser

    return Browser(world.user)
