"""A cluster of scripted nodes, and the API as its user meets it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.cluster.world import World
    from tests.support.people.cast import Api


@pytest.fixture
def api(world: World) -> Api:
    from tests.support.people.cast import Api

    return Api(world.user)
