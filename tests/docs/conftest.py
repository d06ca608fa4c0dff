"""A portal with a cluster of scripted nodes, and readers of its documentation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.people.reader import Reader, reader_of

if TYPE_CHECKING:
    from tests.support.cluster.world import World
    from tests.support.people.live_web import LiveWeb

ROOT = Path(__file__).parents[2]


@pytest.fixture
def world(transactional_db: None) -> World:
    from tests.support.cluster.world import World

    return World()


@pytest.fixture
def web(world: World) -> Iterator[LiveWeb]:
    from tests.support.people.live_web import live_web

    with live_web() as running:
        yield running


@pytest.fixture
def reader(tmp_path: Path, world: World, web: LiveWeb) -> Iterator[Reader]:
    """In a folder with the examples; `BERTH` is the portal's address, as the pages have it."""
    from tests.support.cluster.played import manage

    (tmp_path / "examples").symlink_to(ROOT / "examples")
    with reader_of(tmp_path, {"BERTH": f"http://{web.host}"}, {"manage.py": manage}) as made:
        yield made
