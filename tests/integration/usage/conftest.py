"""A running job of one task with readings of its GPUs, and time that tests set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from portal.metrics.record import Records
    from tests.support.cluster.world import World
    from tests.support.people.cast import Api


@pytest.fixture
def api(world: World) -> Api:
    from tests.support.people.cast import Api

    return Api(world.user)


@pytest.fixture
def records(tmp_path: Path, settings: Any) -> Records:
    from portal.metrics.record import Records

    settings.METRICS_DIR = tmp_path / "metrics"
    return Records(settings.METRICS_DIR)
