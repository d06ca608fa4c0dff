"""A running container that may not open its GPUs any more, as after `systemctl daemon-reload`: its log says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from nodes.keeper import GPUS_DENIED
from nodes.protocol import ContainerState, Phase, log_stream
from tests.nodes.memory_runtime import Backlog
from tests.nodes.supervised import SPECS, Node, desired, in_state, order, wait_for
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until

SPEC = SPECS[0]


def times_told(server: RedisServer) -> int:
    with server.client() as client:
        entries: Any = client.xrange(log_stream("gpu01", SPEC.attempt))
    return b"".join(fields[b"data"] for _, fields in entries).decode("latin-1").count(GPUS_DENIED)


def test_gpus_that_are_taken_from_a_running_container_are_told_in_its_log(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    node = Node(folder=tmp_path)
    node.redis_url, node.runtime.output = redis_server.url, Backlog
    with node.life() as supervisor:
        supervisor.take(desired(1, order(SPEC, Phase.RUN)))
        wait_for(supervisor, SPEC, in_state(ContainerState.RUNNING))
        running = node.runtime.containers[SPEC.attempt]
        assert times_told(redis_server) == 0
        node.runtime.containers[SPEC.attempt] = replace(running, gpus_denied=True)
        supervisor.wake(SPEC.attempt)
        wait_until(lambda: times_told(redis_server) == 1, "the line in the log")
        looked = node.runtime.looks

        def twice_more() -> bool:
            supervisor.wake(SPEC.attempt)
            return node.runtime.looks > looked + 2

        wait_until(twice_more, "two more looks")
        assert times_told(redis_server) == 1
