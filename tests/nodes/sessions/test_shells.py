"""Shells in running tasks, on both runtimes."""

from __future__ import annotations

import os

from redis import Redis

from nodes.protocol import FrameKind, Phase
from tests.nodes.code_server import CodeServer
from tests.nodes.portal_side import PortalSide, spec_of
from tests.nodes.sessions.caller import shell
from tests.support.archives import HELLO, packed


def test_a_shell_on_a_terminal_echoes_answers_and_ends_with_its_exit_code(
    portal: PortalSide, redis: Redis, task: str
) -> None:
    caller = shell(portal, redis, task, term="xterm-256color", rows=31, columns=99)
    caller.type("stty size; echo $TERM $BERTH_ATTEMPT_ID; tty\n")
    caller.until("31 99")
    caller.until(f"xterm-256color {task}")
    caller.resize(40, 120)
    caller.type("stty size; exit 7\n")
    caller.until("40 120")
    assert caller.ended().code == 7
    assert not caller.end.fault if caller.end else False


def test_a_program_begins_where_the_code_of_the_task_lies(portal: PortalSide, redis: Redis) -> None:
    server = CodeServer()
    code = server.add(packed(HELLO))
    spec = spec_of("trap 'exit 0' TERM; echo ready; while :; do sleep 0.1; done", code=code)
    portal.addresses[spec.attempt] = server.url(code)
    attempt = portal.order(spec, Phase.RUN)
    portal.wait(attempt, lambda container: container.log_end > 0)
    server.close()
    caller = shell(portal, redis, attempt, "cat", "train.py", tty=False)
    assert caller.ended().code == 0
    assert caller.output == HELLO["train.py"]


def test_a_command_without_a_terminal_has_its_own_streams_and_reads_to_the_end_of_its_input(
    portal: PortalSide, redis: Redis, task: str
) -> None:
    caller = shell(portal, redis, task, "sh", "-c", "cat; echo trouble >&2; exit 3", tty=False)
    data = os.urandom(100_000)
    caller.send(FrameKind.DATA, data)
    caller.send(FrameKind.FINISH)
    assert caller.ended().code == 3
    assert (caller.output, caller.errors, caller.taken) == (data, b"trouble\n", len(data))
