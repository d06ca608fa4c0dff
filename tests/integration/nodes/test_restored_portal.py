"""Lists of a portal that was restored to an earlier moment: what is over is told again, and nothing begins anew."""

from dataclasses import replace
from pathlib import Path

import pytest

from nodes.protocol.logs import STDOUT, LogRecord
from nodes.protocol.messages import Exit
from nodes.protocol.names import log_stream
from nodes.protocol.states import Cause, ContainerState, Phase
from tests.support.cluster.agent_logs import Printed
from tests.support.cluster.supervised_node import SPECS, Node, desired, in_state, order, shown, wait_for
from tests.support.run.waiting import wait_until
from tests.support.services.redis_server import RedisServer

SPEC = SPECS[0]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_what_was_removed_meanwhile_tells_again_how_it_ended(node: Node) -> None:
    wanted = order(SPEC, Phase.RUN)
    with node.life() as supervisor:
        supervisor.take(desired(1, wanted))
        wait_for(supervisor, SPEC, in_state(ContainerState.RUNNING))
        node.runtime.end(SPEC.attempt, 3)
        supervisor.wake(SPEC.attempt)
        ended = wait_for(supervisor, SPEC, in_state(ContainerState.TERMINATED))
        supervisor.take(desired(2, order(SPEC, Phase.REMOVE)))
        wait_until(lambda: shown(supervisor, SPEC.attempt) is None, "the removal")

        supervisor.take(desired(3, replace(wanted, begun=True)))
        again = shown(supervisor, SPEC.attempt)
        assert again is not None
        assert (again.exit and again.exit.code, again.ended_ms) == (3, ended.ended_ms)
        assert again.log_complete
        supervisor.take(desired(4, order(SPEC, Phase.REMOVE)))
        assert shown(supervisor, SPEC.attempt) is None
    assert node.runtime.starts[SPEC.attempt] == 1


def test_what_had_begun_and_nobody_here_knows_is_gone_and_does_not_begin_anew(node: Node) -> None:
    with node.life() as supervisor:
        wait_until(lambda: supervisor.view().generation == 0, "the start")
        fresh, begun = order(SPECS[1], Phase.RUN), replace(order(SPEC, Phase.RUN), begun=True)
        supervisor.take(desired(1, fresh, begun))
        wait_for(supervisor, SPECS[1], in_state(ContainerState.RUNNING))
        gone = wait_for(supervisor, SPEC, in_state(ContainerState.TERMINATED))
        told, said = "its server knows nothing of it any more", {"says": "node_unknown"}
        assert gone.exit == Exit(cause=Cause.VANISHED, message=told, said=said)
        supervisor.take(desired(2, fresh, replace(begun, phase=Phase.REMOVE)))
        wait_until(lambda: shown(supervisor, SPEC.attempt) is None, "nothing of it")
    assert SPEC.attempt not in node.runtime.starts


@pytest.mark.redis
def test_an_archive_that_was_longer_is_given_again_what_it_lacks(node: Node, redis_server: RedisServer) -> None:
    node.redis_url = redis_server.url
    node.runtime.output = lambda: Printed([LogRecord(1, STDOUT, b"hello\n")], ended=True)
    wanted = order(SPEC, Phase.RUN)
    with node.life() as supervisor, redis_server.client() as client:
        supervisor.take(desired(1, wanted))
        end = wait_for(supervisor, SPEC, lambda report: report.log_end).log_end
        stream = log_stream("gpu01", SPEC.attempt)
        wait_until(lambda: client.xlen(stream), "the log in Redis")
        supervisor.take(desired(2, replace(wanted, archived=end)))
        client.delete(stream)

        supervisor.take(desired(3, replace(wanted, archived=0)))
        wait_until(lambda: client.xlen(stream), "the log in Redis again")
