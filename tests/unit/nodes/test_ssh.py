"""What containers say of their SSH servers, and what is done about it: nothing is believed, nobody is kept waiting."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from nodes.agent.runtimes.process.runtime import ProcessRuntime
from nodes.agent.runtimes.ssh import SshSetup, ssh_answer, ssh_keys_text
from nodes.protocol import wordings
from nodes.protocol.messages import SshAccess, SshServer
from tests.support.cluster.memory_runtime import MemoryRuntime
from tests.support.run.waiting import wait_until

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
NOT_STARTED = SshServer(message=wordings.NO_SERVER())


@pytest.mark.parametrize(
    ("said", "server"),
    [
        (f"open root {KEY}\n", SshServer(user="root", host_key=KEY)),
        ("none its image has no SSH server\n", SshServer(message="its image has no SSH server")),
        ("none \x1b[2Jwiped\n", SshServer(message="[2Jwiped")),
        (f"open -oProxyCommand=x {KEY}\n", NOT_STARTED),
        (f"open root {KEY} and more\n", NOT_STARTED),
        ("open root\n", NOT_STARTED),
        ("", NOT_STARTED),
        ("\xff" * 4096, NOT_STARTED),
    ],
)
def test_only_what_has_the_form_is_taken_of_a_containers_answer(said: str, server: SshServer) -> None:
    assert ssh_answer(said.encode("latin-1")) == server


def test_only_bare_keys_are_written_for_a_server() -> None:
    others = [f'command="id" {KEY}', f"{KEY} a comment", f"{KEY}\n{KEY}", "", "# nothing"]
    assert ssh_keys_text([*others, KEY]) == f"{KEY}\n"


class Silent(MemoryRuntime):
    """In its containers nothing ever answers."""

    def ssh_open(self, attempt: str, port: int) -> SshServer:
        threading.Event().wait()
        raise AssertionError


def test_keys_are_written_as_they_change_while_a_container_does_not_answer() -> None:
    runtime = Silent()
    care = SshSetup("a", runtime, lambda: None)
    assert care.look(SshAccess(port=1, keys=(KEY,)), opened=False) is None
    assert runtime.keys == {"a": f"{KEY}\n"}
    assert care.look(SshAccess(port=1, keys=()), opened=False) is None
    assert runtime.keys == {"a": ""}


def test_an_answer_wakes_who_waits_for_it_and_is_given_once() -> None:
    runtime, woken = MemoryRuntime(), threading.Event()
    care, wanted = SshSetup("a", runtime, woken.set), SshAccess(port=7, keys=())
    assert care.look(wanted, opened=False) is None
    assert woken.wait(5)
    told = care.look(wanted, opened=False)
    assert told == SshServer(message="containers in memory open no port 7")
    assert care.look(wanted, opened=True) is None


def test_plain_processes_have_no_ssh_and_say_so(tmp_path: Path) -> None:
    runtime = ProcessRuntime(cluster="c", node="n", folder=tmp_path / "p", homes=tmp_path / "h")
    wanted = SshAccess(port=7, keys=(KEY,))
    care = SshSetup("a", runtime, lambda: None)
    told = wait_until(lambda: care.look(wanted, opened=False), "its answer")
    assert told == SshServer(message=wordings.NO_CONTAINER())
