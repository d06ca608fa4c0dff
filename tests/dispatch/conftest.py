"""A cluster of scripted nodes for each test that asks for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.world import World


@pytest.fixture
def world(db: None) -> World:
    from tests.support.world import World

    return World()
