"""A machine that was started anew, and logs whose end the portal has yet to hear."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodes.agent.attempts.journal import Journal
from nodes.agent.runtimes.base import RuntimeContainer
from nodes.agent.runtimes.docker.container_state import container_inspected
from nodes.protocol.logs import STDOUT, LogRecord
from nodes.protocol.names import LABEL
from nodes.protocol.states import Cause, ContainerState, Phase
from tests.support.cluster.agent_logs import Printed
from tests.support.cluster.memory_runtime import Backlog
from tests.support.cluster.supervised_node import SPECS, Node, desired, in_state, order, wait_for
from tests.support.run.waiting import wait_until
from tests.support.services.redis_server import RedisServer


@pytest.mark.parametrize(
    ("code", "starts", "kept", "cause"),
    [
        (0, 1, True, Cause.ENGINE_FAULT),
        (0, 0, True, Cause.EXITED),
        (3, 1, True, Cause.EXITED),
        (0, 1, False, Cause.EXITED),
    ],
    ids=["a status that an Engine makes up", "no start", "the program's own", "a record of an older agent"],
)
def test_a_status_that_an_engine_makes_up_is_no_programs_after_a_start_of_the_machine(
    node: Node, code: int, starts: int, kept: bool, cause: Cause
) -> None:
    """By whatever time the Engine says that the container ended: clocks are set right after a start."""
    spec = SPECS[0]
    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.RUN)))
        wait_for(supervisor, spec, in_state(ContainerState.RUNNING))
    journal = Journal(node.folder / "attempts")
    record = journal.read(spec.attempt)
    assert record is not None
    assert record.boot == node.clock.boot()
    if not kept:
        journal.write(replace(record, boot=""))
    details = {
        "Id": "c1",
        "State": {"Status": "exited", "ExitCode": code, "OOMKilled": False, "Error": "", "Paused": False,
                  "StartedAt": "2026-11-25T09:00:00Z", "FinishedAt": "2026-11-25T12:00:00Z"},
        "Config": {"Labels": {LABEL.ATTEMPT: spec.attempt}, "Image": spec.image},
            "HostConfig": {"Memory": 0},
    }  # fmt: skip
    node.runtime.containers[spec.attempt] = container_inspected(details, status_lost=False)
    node.clock.starts += starts
    with node.life() as supervisor:
        ended = wait_for(supervisor, spec, in_state(ContainerState.TERMINATED))
    assert ended.exit is not None
    assert (ended.exit.cause, ended.exit.code) == (cause, None if cause is Cause.ENGINE_FAULT else code)


# ---------------------------------------------------------------- a log whose end others must know


@pytest.mark.redis
def test_a_short_log_ends_after_a_start_of_the_machine_though_nothing_of_it_is_archived(
    node: Node, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Less than what is archived at once: the portal acknowledges nothing of it before its end."""
    node.redis_url = redis_server.url
    node.runtime.output = lambda: Printed([LogRecord(1, STDOUT, b"hello\n")], ended=True)
    monkeypatch.setattr("nodes.agent.logs.spool.machine_boot", lambda: "one")
    spec = SPECS[0]
    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.RUN)))
        wait_for(supervisor, spec, lambda report: report.log_end)
    node.runtime.end(spec.attempt, 137)
    with redis_server.client() as client:
        client.flushall()
    monkeypatch.setattr("nodes.agent.logs.spool.machine_boot", lambda: "two")
    with node.life() as supervisor:
        supervisor.take(desired(2, replace(order(spec, Phase.RUN), begun=True)))
        wait_for(supervisor, spec, lambda report: report.log_complete)
        with redis_server.client() as client:
            wait_until(lambda: list(client.scan_iter("*:log:*")), "the log in Redis")


def test_a_log_that_does_not_end_is_looked_after_without_haste(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.runtime.output = Backlog
    spec, looks, real = SPECS[0], [0.0], node.runtime.find

    def counted(attempt: str) -> RuntimeContainer | None:
        looks.append(node.clock.monotonic())
        return real(attempt)

    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.RUN)))
        wait_for(supervisor, spec, in_state(ContainerState.RUNNING))
        node.runtime.end(spec.attempt, 0)
        supervisor.wake(spec.attempt)
        wait_for(supervisor, spec, in_state(ContainerState.TERMINATED))
        monkeypatch.setattr(node.runtime, "find", counted)
        wait_until(lambda: len(looks) > 2, "two looks")
    assert looks[2] - looks[1] > 0.5
