"""A cluster of scripted nodes whose owner has an address for mail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.cluster.world import World


@pytest.fixture
def world(db: None) -> World:
    from portal.notices.services.gather import notices_gather
    from tests.support.cluster.world import World

    world = World()
    world.user.email = "alice@example.org"
    world.user.save()
    notices_gather(now=world.now)
    return world
