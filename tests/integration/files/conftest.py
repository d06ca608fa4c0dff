"""A running job of alice's on a node with a real door, and storage for its folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.cluster.echo_node import EchoRuntime, echo_door

if TYPE_CHECKING:
    from portal.jobs.models import TaskAttempt
    from tests.support.cluster.scripted_node import ScriptedNode
    from tests.support.cluster.world import World
    from tests.support.people.live_web import LiveWeb


class Running:
    """``row`` is the task attempt, ``folder`` the job's folder, ``runtime`` what its node runs programs with."""

    def __init__(self, root: Path) -> None:
        from portal.jobs.models import TaskAttempt
        from portal.storages.models import Storage
        from tests.support.cluster.world import World

        Storage.objects.create(name="jobs", root=str(root), jobs=True, must_be_mount=False)
        self.world: World = World()
        self.node: ScriptedNode = self.world.node("gpu01", gpus=2, root=str(root))
        self.job = self.world.submit()
        self.world.settle()
        self.row: TaskAttempt = TaskAttempt.objects.get(task__job=self.job)
        self.folder = root / "alice" / f"{self.job.name}-{self.job.run}"
        self.folder.mkdir(parents=True)
        self.root = root
        self.runtime: EchoRuntime

    def door(self, **changes: Any) -> Any:
        """Its node's door, to be opened."""
        from django.conf import settings

        known: dict[str, Any] = {
            "node": self.node.name, "key": self.node.key, "portal_public_key": settings.PORTAL_KEY.public,
            "boot": self.node.boot, "redis_url": settings.REDIS_URL, "root": self.root,
        }  # fmt: skip
        return echo_door(**{**known, **changes})


@pytest.fixture
def cluster(transactional_db: None, tmp_path: Path) -> Running:
    """The same without an agent."""
    root = tmp_path / "jobs"
    root.mkdir()
    return Running(root)


@pytest.fixture
def running(cluster: Running) -> Iterator[Running]:
    with cluster.door() as cluster.runtime:
        yield cluster


@pytest.fixture
def web(transactional_db: None) -> Iterator[LiveWeb]:
    from tests.support.people.live_web import live_web

    with live_web() as made:
        yield made
