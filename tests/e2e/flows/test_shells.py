"""`berth exec` and `berth files` against the whole stack: a shell under a terminal, and what a job leaves behind."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.cluster.stack import Stack
from tests.support.people.person import Person, alice
from tests.support.people.shell import BERTH, Shell
from tests.support.run.waiting import wait_until

WAIT = "echo ready; while :; do sleep 0.2; done"


@pytest.fixture
def user(embedded_stack: Stack) -> Iterator[Person]:
    made = alice(embedded_stack)
    yield made
    made.clear()


@pytest.fixture
def shell(user: Person, tmp_path: Path) -> Shell:
    return Shell(tmp_path, user.stack.url, user.stack.tokens["alice"])


class Terminal:
    """`berth` on a terminal: `seen` is what it shows."""

    def __init__(self, shell: Shell, *words: str) -> None:
        self._ours, theirs = pty.openpty()
        termios.tcsetwinsize(self._ours, (33, 101))
        self.before = termios.tcgetattr(theirs)
        self._theirs = theirs
        environment = {**shell.environment(), "TERM": "xterm"}
        self.process = subprocess.Popen(
            [*BERTH, *words], env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        self.seen = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                self.seen += os.read(self._ours, 65536)
            except OSError:
                return

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def until(self, text: str) -> None:
        try:
            wait_until(lambda: text.encode() in self.seen, f"{text!r}", deadline_s=30)
        except AssertionError as error:
            raise AssertionError(f"{error}; seen: {bytes(self.seen)!r}") from None

    def resize(self, rows: int, columns: int) -> None:
        termios.tcsetwinsize(self._ours, (rows, columns))
        self.process.send_signal(signal.SIGWINCH)

    def is_as_before(self) -> bool:
        return termios.tcgetattr(self._theirs) == self.before

    def ended(self) -> int:
        return self.process.wait(30)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._theirs)
        os.close(self._ours)
        self._reader.join(5)


@contextmanager
def terminal(shell: Shell, *words: str) -> Iterator[Terminal]:
    made = Terminal(shell, *words)
    try:
        yield made
    finally:
        made.close()


def test_a_shell_under_a_terminal_and_the_files_that_it_leaves(user: Person, shell: Shell) -> None:
    job = user.run(WAIT, name="worked")
    user.wait_line(job, "ready")
    with terminal(shell, "exec", "worked") as screen:
        screen.type("stty size; echo in $BERTH_JOB\n")
        screen.until("33 101")
        screen.until("in alice/worked#")
        screen.resize(44, 122)
        screen.type('until [ "$(stty size)" = "44 122" ]; do sleep 0.1; done\n')
        screen.type('cd $BERTH_JOB_DIR; mkdir -p out; echo "a result" >"out/100%.txt"; exit 5\n')
        assert screen.ended() == 5
        assert screen.is_as_before()
    assert "a result" in shell.berth("exec", "worked", "--", "sh", "-c", 'cat "$BERTH_JOB_DIR/out/100%.txt"')
    assert shell.berth("exec", "worked", "--", "sh", "-c", "tr a-z A-Z; exit 9", typed="typed\n", code=9) == ""
    user.stop(job)
    user.wait(job, "stopped")

    listed = json.loads(shell.berth("files", "worked", "out", "--json"))
    assert [(one["name"], one["path"], one["kind"], one["size"]) for one in listed] == [
        ("100%.txt", "out/100%25.txt", "file", 9)
    ]
    assert "out/" in shell.berth("files", "worked")
    assert shell.berth("files", "worked", "out/100%25.txt", "-o", "-") == "a result\n"
    shell.berth("files", "worked", "out", "-d")
    assert (shell.home / "out" / "100%.txt").read_text() == "a result\n"
    assert "does not run" in shell.berth("exec", "worked", "--", "true", code=1)


def test_killing_the_agent_ends_a_shell_with_words_and_leaves_the_task_alone(user: Person, shell: Shell) -> None:
    job = user.run(WAIT)
    user.wait_line(job, "ready")
    with terminal(shell, "exec", str(job)) as screen:
        screen.type("echo be''gun\n")
        screen.until("begun")
        user.stack.kill9("here")
        screen.until("The agent of here does not answer.")
        assert screen.ended() == 69
        assert screen.is_as_before()
    user.stack.restart("here")
    assert user.job(job)["state"] == "running"
    wait_until(lambda: "again" in shell_or_nothing(shell, job), "a shell of the new agent", deadline_s=60)


def shell_or_nothing(shell: Shell, job: int) -> str:
    """A new agent is known by its first report; until then it answers nothing."""
    process = shell.start("exec", str(job), "--", "echo", "again")
    out, _ = process.communicate(timeout=60)
    return out
