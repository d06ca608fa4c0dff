"""The `berth` command against the whole stack: jobs as plain processes, SQLite, one node."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodes.runtimes.process import ProcessRuntime
from tests.support.person import Person, alice, job_file
from tests.support.seed import PASSWORD
from tests.support.shell import BERTH, Shell
from tests.support.stack import Stack
from tests.support.waiting import wait_until

COUNT = 'i=0; while [ $i -lt 60 ]; do echo "line $i"; i=$((i+1)); sleep 0.1; done'


@pytest.fixture
def user(embedded_stack: Stack) -> Iterator[Person]:
    made = alice(embedded_stack)
    yield made
    made.clear()


@pytest.fixture
def shell(user: Person, tmp_path: Path) -> Shell:
    """Alice's terminal, once she has signed in."""
    made = Shell(tmp_path)
    made.berth("login", user.stack.url, "--user", "alice", "--password-stdin", typed=f"{PASSWORD}\n")
    return made


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if ProcessRuntime.notice not in line]


class Reading:
    """A running `berth`: `out` and `errors` grow."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.out, self.errors = process, list[str](), list[str]()
        pairs = ((process.stdout, self.out), (process.stderr, self.errors))
        self._threads = [threading.Thread(target=into.extend, args=(stream,), daemon=True) for stream, into in pairs]
        for thread in self._threads:
            thread.start()

    def ended(self, deadline_s: float = 60) -> int:
        """Its exit code."""
        try:
            return self.process.wait(deadline_s)
        finally:
            self.process.kill()
            for thread in self._threads:
                thread.join(5)


def test_following_a_submission_prints_the_log_and_ends_with_the_jobs_exit_code(user: Person, shell: Shell) -> None:
    (shell.home / "job.yaml").write_text(job_file("echo reading", "exit 3", vc=user.vc))
    reading = Reading(shell.start("submit", "job.yaml", "--follow"))
    assert reading.ended() == 3, reading.errors
    assert lines("".join(reading.out)) == ["reading"]
    said = "".join(reading.errors)
    assert "job alice/train#" in said
    assert "failed after" in said
    assert "exit status 3" in said


def test_a_program_reads_the_log_and_the_end_as_json_lines(user: Person, shell: Shell) -> None:
    reading = Reading(shell.start("run", "--image", "busybox", "--cpu", "1", "-f", "--json", "--", "echo", "a line"))
    assert reading.ended() == 0, reading.errors
    *records, last = [json.loads(line) for line in reading.out]
    assert {(row["kind"], row["task"]) for row in records} == {("log", "main/0")}
    assert "".join(row["text"] for row in records if row["stream"] == 1) == "a line\n"
    assert (last["kind"], last["job"]["name"], last["job"]["state"]) == ("job", "echo", "succeeded")
    assert Reading(shell.start("logs", "-f", "echo")).ended() == 0, "following what is over ends at once"


def test_a_command_run_on_two_tasks_shows_each_line_with_its_task(user: Person, shell: Shell) -> None:
    words = ["sh", "-c", 'echo "I am $BERTH_TASK_RANK"; printf "no end of line"']
    small = ["--image", "busybox", "--tasks", "2", "--cpu", "1", "--memory", "64M"]
    reading = Reading(shell.start("run", *small, "--name", "pair", "-f", "--", *words))
    assert reading.ended() == 0, reading.errors
    assert sorted(lines("".join(reading.out))) == [
        "[main/0] I am 0", "[main/0] no end of line", "[main/1] I am 1", "[main/1] no end of line",
    ]  # fmt: skip
    assert shell.berth("logs", "pair", "--task", "main/1").endswith("I am 1\nno end of line")


def test_a_folder_of_code_comes_with_a_command_and_with_its_retry(user: Person, shell: Shell) -> None:
    project = shell.home / "project"
    (project / "lib").mkdir(parents=True)
    (project / "train.sh").write_text('#!/bin/sh\ncat lib/words; [ "$BERTH_JOB_ATTEMPT" = 2 ]\n')
    (project / "train.sh").chmod(0o755)
    (project / "lib" / "words").write_text("three words here\n")
    (project / ".gitignore").write_text("*.log\n")
    (project / "old.log").write_text("noise\n")
    small = ["--image", "busybox", "--cpu", "1", "--memory", "64M", "--retries", "1"]
    words = ["sh", "-c", "ls; ./train.sh"]
    reading = Reading(shell.start("run", *small, "--code", "project", "--name", "coded", "-f", "--", *words))
    assert reading.ended() == 0, reading.errors
    assert lines(shell.berth("logs", "coded")) == ["lib", "train.sh", "three words here"]
    (first,) = user.berth.jobs.list(user=user.name, name="coded")
    clone = user.submit(user.berth.jobs.config(first.id))
    assert user.wait(clone, "succeeded")["code"]["id"] == user.job(first.id)["code"]["id"]


def test_following_outlives_a_restart_of_the_portal_with_every_line_once(user: Person, shell: Shell) -> None:
    job = user.run(COUNT)
    reading = Reading(shell.start("logs", "-f", str(job)))
    wait_until(lambda: "line 5\n" in reading.out, "the first lines", deadline_s=60)
    user.stack.kill9("web")
    wait_until(lambda: any("cannot be reached" in line for line in reading.errors) or len(reading.out) > 60, "notice")
    user.stack.restart("web")
    user.stack.wait_ready()
    assert reading.ended(90) == 0, reading.errors
    assert lines("".join(reading.out)) == [f"line {number}" for number in range(60)]


def test_leaving_does_not_end_the_job_and_stopping_it_ends_the_following(user: Person, shell: Shell) -> None:
    job = user.run("echo here; sleep 100", name="long")
    leaver, stayer = (Reading(shell.start("logs", "-f", "long")) for _ in range(2))
    wait_until(lambda: "here\n" in leaver.out and "here\n" in stayer.out, "both to follow", deadline_s=60)
    leaver.process.send_signal(signal.SIGINT)
    assert leaver.ended() == 130
    assert f"the job goes on; stop it: berth stop {job}" in "".join(leaver.errors)
    assert user.job(job)["state"] == "running"
    assert "is stopping" in shell.berth("stop", "long")
    assert stayer.ended() != 0
    assert "stopped" in "".join(stayer.errors)


def test_top_is_a_live_screen(user: Person, shell: Shell) -> None:
    ours, theirs = pty.openpty()
    environment = {**shell.environment(), "TERM": "xterm", "LINES": "60"}
    process = subprocess.Popen(
        [*BERTH, "top", "--every", "0.5"], env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    seen = bytearray()
    reader = threading.Thread(target=drain, args=(ours, seen), daemon=True)
    reader.start()
    try:
        wait_until(lambda: b"0 of 4 GPUs held" in seen, "the screen")
        job = user.run("sleep 100", name="watched")
        wait_until(lambda: re.search(rb"alice/watched#\d+", seen), "the job on the screen", deadline_s=60)
        wait_until(lambda: b"1 of 4 GPUs held" in seen, "its GPU")
        user.stop(job)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
    finally:
        process.kill()
        reader.join(5)
        os.close(ours)


def drain(terminal: int, into: bytearray) -> None:
    """Reads what a program writes on a terminal, to its end."""
    while True:
        try:
            into += os.read(terminal, 65536)
        except OSError:
            return
