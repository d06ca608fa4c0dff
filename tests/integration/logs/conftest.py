"""A task attempt on a node whose log really runs: its pipeline, Redis, the archive and a reader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis

from nodes.agent.logs.masks import Masks
from nodes.agent.logs.pipeline import LogPipeline
from nodes.protocol.states import ContainerState, Phase
from tests.support.cluster.agent_logs import Printed
from tests.support.run.waiting import wait_until
from tests.support.services.redis_server import RedisServer

if TYPE_CHECKING:
    from portal.jobs.models import TaskAttempt
    from tests.support.cluster.scripted_node import ScriptedNode


class RunningLog:
    """The log of one task attempt: ``source`` is what its container prints."""

    def __init__(self, folder: Path, url: str) -> None:
        from portal.logs.archive_store import Archive
        from portal.logs.archiver import Archiver, log_of
        from portal.logs.reader import LogReader
        from tests.support.cluster.world import World

        self.world = World()
        self.node = self.world.node("gpu07")
        self.row = self.task_attempt(self.node)
        self.source = Printed()
        self.redis = redis.Redis.from_url(url)
        self.log = log_of(self.row)
        self.archive = Archive(folder / "logs")
        self.archiver = Archiver(self.archive, self.redis)
        self.reader = LogReader(self.archive, self.redis)
        self._folder, self._url = folder / "spool", url
        self.pipeline = self.start_agent()

    def task_attempt(self, node: ScriptedNode) -> TaskAttempt:
        """One that runs there."""
        from portal.jobs.models import JobAttempt, Task, TaskAttempt

        job, now = self.world.submit(), self.world.now
        attempt = JobAttempt.objects.create(job=job, number=1, created_at=now)
        return TaskAttempt.objects.create(
            task=Task.objects.get(job=job), job_attempt=attempt, number=1, node=node.row, phase=Phase.RUN,
            state=ContainerState.RUNNING, cpu_milli=1000, memory_mb=1024, created_at=now,
        )  # fmt: skip

    @property
    def attempt(self) -> str:
        return str(self.row.pk)

    def start_agent(self) -> LogPipeline:
        """The node's pipeline, as a newly started agent has it."""
        self.pipeline = LogPipeline(folder=self._folder, node="gpu07", key=self.node.key, redis_url=self._url)
        self.pipeline.attach(self.attempt, self.source, Masks())
        return self.pipeline

    def sent(self, end: int) -> None:
        """Waits until the log is in Redis up to ``end``."""
        wait_until(lambda: self.reader.end(self.log) >= end, f"the log up to {end}")

    def report(self) -> None:
        """What the node's report says of the log."""
        status = self.pipeline.status(self.attempt)
        type(self.row).objects.filter(pk=self.row.pk).update(log_end=status.end, log_complete=status.complete)

    def archive_all(self) -> None:
        """Archives until the container's last byte is kept."""

        def done() -> bool:
            self.report()
            self.archiver.step(self.row.pk)
            self.row.refresh_from_db()
            self.pipeline.ack(self.attempt, self.row.archived_to)
            return self.row.log_complete and self.row.archived_to >= self.row.log_end

        wait_until(done, "the archive to have it all", every_s=0.01)

    def text(self) -> str:
        return b"".join(self.reader.download(self.log)).decode()

    def close(self) -> None:
        self.pipeline.close()
        self.redis.close()


@pytest.fixture
def running_log(db: None, tmp_path: Path, redis_server: RedisServer) -> Iterator[RunningLog]:
    running = RunningLog(tmp_path, redis_server.url)
    yield running
    running.close()
