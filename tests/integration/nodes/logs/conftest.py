"""Log pipelines over a real Redis."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from nodes.agent.logs.pipeline import LogPipeline
from tests.support.cluster.agent_logs import KEY, NODE, Start
from tests.support.services.redis_server import RedisServer


@pytest.fixture
def start(tmp_path: Path, redis_server: RedisServer) -> Iterator[Start]:
    """Starts pipelines over one folder, as one agent after the other; all are closed at the end."""
    started: list[LogPipeline] = []

    def begin(**options: Any) -> LogPipeline:
        started.append(
            LogPipeline(folder=tmp_path / "spool", node=NODE, key=KEY, redis_url=redis_server.url, **options)
        )
        return started[-1]

    yield begin
    for pipeline in started:
        pipeline.close()


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[redis.Redis]:
    with redis_server.client() as client:
        yield client
