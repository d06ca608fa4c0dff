"""Shells in running tasks, on both runtimes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psutil
import pytest
from redis import Redis

from nodes.protocol.envelope import PortalKey
from nodes.protocol.names import container_name, session_requests
from nodes.protocol.sessions import CHUNK, WINDOW, FrameKind, SessionFault, ShellRequest
from nodes.protocol.states import ContainerState, Phase
from tests.integration.nodes.sessions.caller import Caller, shell
from tests.integration.nodes.sessions.conftest import SHELLS, start_again
from tests.support.cluster.portal_side import PortalSide, spec_of
from tests.support.run.archives import HELLO, packed
from tests.support.run.waiting import wait_until
from tests.support.services.code_server import CodeServer

STATUS = ("sh", "-c", "id -u; id -g; grep -E 'NoNewPrivs|CapEff' /proc/self/status; echo $HOME; ulimit -c")


def alive(mark: str) -> bool:
    """Whether a process whose command line has the mark lives on this machine, in whatever container."""
    return any(mark in " ".join(one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"]))


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
    end = caller.ended()
    assert (end.code, end.fault) == (7, "")


def test_a_program_begins_where_the_code_of_the_task_lies(portal: PortalSide, redis: Redis) -> None:
    server = CodeServer()
    code = server.add(packed(HELLO))
    spec = spec_of("trap 'exit 0' TERM; echo ready; while :; do sleep 0.1; done", code=code)
    portal.addresses[spec.attempt] = server.url(code)
    attempt = portal.order(spec, Phase.RUN)
    portal.wait_state(attempt, ContainerState.RUNNING)
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


@pytest.mark.root
def test_a_program_has_the_tasks_user_limits_and_rights_and_no_more(
    portal: PortalSide, redis: Redis, task: str
) -> None:
    caller = shell(portal, redis, task, *STATUS, tty=False)
    assert caller.ended().code == 0, caller.errors
    uid, gid, *rights, home, core = caller.output.decode().split("\n")[:-1]
    assert (uid, gid, core) == ("5000", "5000", "0")
    assert [re.split(r":\s*", right) for right in rights] == [["CapEff", "0" * 16], ["NoNewPrivs", "1"]]
    assert home != os.environ["HOME"]


def test_the_words_of_a_command_reach_it_as_they_are(portal: PortalSide, redis: Redis, task: str) -> None:
    words = ["a b", "$HOME", "'\"", "", "-n", "ü\n"]
    caller = shell(portal, redis, task, "printf", "[%s]", *words, tty=False)
    assert caller.ended().code == 0
    assert caller.output.decode() == "".join(f"[{word}]" for word in words)


def test_what_cannot_be_found_ends_with_the_shells_own_status(portal: PortalSide, redis: Redis, task: str) -> None:
    caller = shell(portal, redis, task, "no-such-program", tty=False)
    assert caller.ended().code == 127
    assert b"no-such-program" in caller.errors


def test_a_flood_waits_for_whoever_reads_it_and_stops_with_them(portal: PortalSide, redis: Redis, task: str) -> None:
    caller = shell(portal, redis, task, "sh", "-c", ": flood; yes", tty=False)
    # A piece that does not fit waits, so that up to one piece stays free.
    wait_until(lambda: len(caller.output) > WINDOW - CHUNK or caller.take(acknowledge=False) is None, "a full window")
    assert caller.take(wait_s=1.0, acknowledge=False) == []
    assert len(caller.output) <= WINDOW
    caller.send(FrameKind.END)
    wait_until(lambda: not alive(": flood; yes"), "the flood to end")


def test_what_a_program_does_not_read_holds_up_neither_its_output_nor_its_end(
    portal: PortalSide, redis: Redis, task: str
) -> None:
    caller = shell(portal, redis, task, "sh", "-c", ": deaf; while :; do echo tick; sleep 0.05; done", tty=False)
    for _ in range(8):
        caller.send(FrameKind.DATA, bytes(WINDOW // 8))
    caller.until("tick\n" * 20)
    caller.send(FrameKind.END)
    wait_until(lambda: not alive(": deaf;"), "the program to end")


def test_a_program_ends_when_its_portal_is_silent_though_it_ignores_being_hung_up(
    portal: PortalSide, redis: Redis, task: str
) -> None:
    command = ("sh", "-c", ": silent; trap '' HUP; echo begun; while :; do sleep 0.1; done")
    caller = Caller(portal, redis, shell=ShellRequest(attempt=task, command=command))
    caller.request = replace(caller.request, silence_s=1)
    caller.call().until("begun")
    end = caller.ended()
    assert (end.fault, end.message) == (SessionFault.BROKEN, "The portal was silent for too long.")
    wait_until(lambda: not alive(": silent;"), "the program to end")


def test_a_shell_ends_with_its_task(portal: PortalSide, redis: Redis, task: str) -> None:
    caller = shell(portal, redis, task)
    caller.type("echo be''gun\n")
    caller.until("begun")
    portal.stop(task, grace_s=1)
    assert caller.ended().code != 0


def test_a_task_that_does_not_run_has_no_shell(portal: PortalSide, redis: Redis, task: str) -> None:
    end = shell(portal, redis, "4f1d8a3e-0000-4000-8000-000000000001").ended()
    assert (end.code, end.fault) == (None, SessionFault.NOT_RUNNING)
    portal.stop(task, grace_s=1)
    portal.wait_end(task)
    end = shell(portal, redis, task).ended()
    assert (end.fault, end.message) == (SessionFault.NOT_RUNNING, "The task does not run on this node any more.")


def test_more_shells_than_the_node_allows_are_refused_in_words_and_files_are_not(
    portal: PortalSide, redis: Redis, task: str
) -> None:
    open_ones = [shell(portal, redis, task, "cat", tty=False) for _ in range(SHELLS)]
    wait_until(lambda: all(one.answer or one.take() is None for one in open_ones), "the shells to open")
    end = shell(portal, redis, task).ended()
    assert end.fault == SessionFault.BUSY
    assert f"{SHELLS} shells are open on {portal.name}" in end.message
    for one in open_ones:
        one.send(FrameKind.FINISH)
        assert one.ended().code == 0
    assert shell(portal, redis, task, "true").ended().code == 0


def test_a_request_opens_one_shell_however_often_it_comes_and_only_where_it_belongs(
    portal: PortalSide, redis: Redis, task: str
) -> None:
    def asked() -> Caller:
        return Caller(portal, redis, shell=ShellRequest(attempt=task, command=("cat",), tty=False))

    strange, late, other, kind, old = (asked() for _ in range(5))
    strange.call(strange.envelope(key=PortalKey.generate()))
    late.call(late.envelope(lives_s=-1))
    other.call(other.envelope(to="gpu99"))
    kind.call(kind.envelope(kind="desired"))
    old.request = replace(old.request, boot=old.request.boot - 1)
    old.call()
    redis.xadd(session_requests(portal.name), {"request": "nonsense"})
    redis.xadd(session_requests(portal.name), {"else": b"\xff"})
    good = asked()
    text = good.envelope()
    for _ in range(3):
        good.call(text)
    wait_until(lambda: good.answer or good.take() is None, "the good one")
    good.send(FrameKind.FINISH)
    assert good.ended().code == 0
    assert redis.xlen(good.up) == good.frames
    for refused in (strange, late, other, kind, old):
        assert redis.exists(refused.up) == 0


@pytest.mark.parametrize("change", ["forged", "repeated", "left out", "of the other side"])
def test_a_frame_that_is_not_the_next_of_the_portals_ends_the_shell(
    portal: PortalSide, redis: Redis, task: str, change: str
) -> None:
    caller = shell(portal, redis, task, "cat", tty=False)
    wait_until(lambda: caller.answer or caller.take() is None, "the shell")
    entry, sealed = caller.side.seal(FrameKind.DATA, b"echo\n")
    if change == "forged":
        sealed = sealed[:-1] + bytes([sealed[-1] ^ 1])
    elif change == "repeated":
        redis.xadd(caller.down, {"frame": sealed}, id=entry)
        entry, _ = caller.side.seal(FrameKind.ALIVE)
    elif change == "left out":
        entry, sealed = caller.side.seal(FrameKind.DATA, b"echo\n")
    else:
        entries: Any = redis.xrange(caller.up, count=1)
        sealed = entries[0][1][b"frame"]
    redis.xadd(caller.down, {"frame": sealed}, id=entry)
    end = caller.ended()
    assert (end.code, end.fault) == (None, SessionFault.BROKEN)
    assert caller.output == b"" or change == "repeated"


def test_a_killed_agent_leaves_no_program_behind_and_the_task_alone(
    portal: PortalSide, redis: Redis, task: str
) -> None:
    caller = shell(portal, redis, task, "sh", "-c", ": orphan; echo begun; while :; do sleep 0.1; done")
    caller.until("begun")
    others = list(programs_of_others(portal, task))
    portal.agent.kill()
    start_again(portal)
    wait_until(lambda: not alive(": orphan;"), "the program to end", deadline_s=30)
    assert all(psutil.pid_exists(pid) for pid in others), "somebody else's program in the container is left alone"
    end = shell(portal, redis, task, "echo", "again", tty=False)
    assert end.ended().code == 0, end.end
    assert portal.wait(task, lambda container: True).exit is None


def programs_of_others(portal: PortalSide, task: str) -> Iterator[int]:
    """Process ids of what an administrator of the server began in the container by hand, where there is one."""
    if "BERTH_NODE_DOCKER_URL" in portal.env:
        with portal.docker() as client:
            for command in (["cat"], ["sleep", "1000"]):
                made = client.api.exec_create(container_name(task), command, stdin=True, tty=True)["Id"]
                client.api.exec_start(made, detach=True, tty=True)
                yield wait_until(lambda made=made: client.api.exec_inspect(made)["Pid"], "the program")  # type: ignore[misc]


def test_an_agent_that_is_stopped_says_so(portal: PortalSide, redis: Redis, task: str) -> None:
    caller = shell(portal, redis, task, "sh", "-c", ": stopping; echo begun; while :; do sleep 0.1; done")
    caller.until("begun")
    portal.agent.stop()
    assert caller.ended().message == f"The agent of {portal.name} is shutting down."
    wait_until(lambda: not alive(": stopping;"), "the program to end")


def test_redis_that_loses_everything_ends_the_shell_and_the_next_one_works(
    portal: PortalSide, redis: Redis, task: str
) -> None:
    caller = shell(portal, redis, task, "sh", "-c", ": lost; echo begun; while :; do sleep 0.1; done")
    caller.until("begun")
    portal.redis.restart_empty()
    wait_until(lambda: not alive(": lost;"), "the program to end", deadline_s=30)

    def works() -> bool:
        again = shell(portal, redis, task, "true")
        return any(again.take(wait_s=0.5) and again.end and again.end.code == 0 for _ in range(4))

    wait_until(works, "a shell over the new Redis")
