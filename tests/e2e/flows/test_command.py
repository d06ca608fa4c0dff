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

from nodes.agent.runtimes.process.runtime import ProcessRuntime
from tests.support.cluster.seed import PASSWORD
from tests.support.cluster.stack import Stack
from tests.support.people.documents import ROOT
from tests.support.people.documents import commands as commands_of_page
from tests.support.people.person import Person, alice, job_file
from tests.support.people.reader import Reader, reader_of
from tests.support.people.shell import BERTH, Shell
from tests.support.run.waiting import wait_until
from tests.support.services.systemd import a_server

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


# ---------------------------------------------------------------- as the pages say

PAGE = "docs/user/command-line.md"
SERVERS = "docs/admin/servers.md"
STAY = (
    'mkdir -p "$BERTH_JOB_DIR/checkpoints"; echo weights > "$BERTH_JOB_DIR/checkpoints/last.pt"',
    'head -c 5000 /dev/zero > "$BERTH_JOB_DIR/model.pt"; echo staying; sleep 300',
)
LABEL = 'import json, sys; print(json.load(sys.stdin)["job"]["label"])'
NEWEST = f"berth show train --json | .venv/bin/python -c '{LABEL}'"


@pytest.fixture
def reader(user: Person, tmp_path: Path) -> Iterator[Reader]:
    told = {"BERTH": user.stack.url, "TOKEN": user.stack.tokens["alice"]}
    with reader_of(tmp_path, told, {"manage.py": lambda call: (0, user.stack.manage(*call.words), "")}) as made:
        yield made


def test_a_day_goes_as_the_pages_say(user: Person, reader: Reader) -> None:
    url = {"https://berth.example.org": user.stack.url}
    reader.section(PAGE, "Signing in", words=url, typed={f"berth login {[*url][0]}": f"alice\n{PASSWORD}\n"})
    for name, commands in {"train": ("echo trained",), "stay": STAY}.items():
        (reader.folder / f"{name}.yaml").write_text(job_file(*commands, vc=user.vc))
    (reader.folder / "train.py").write_text("print('from this folder')\n")
    small = "--image pytorch/pytorch --cpu 1 --memory 64M"
    words = {
        "python train.py --lr 0.1": "echo lr 0.1",
        "python train.py": "python3 train.py",
        "--image pytorch/pytorch": small,
        "train#3": f'"$({NEWEST})"',
    }
    staying = "berth submit stay.yaml; until berth logs train | grep -q staying; do sleep 0.2; done"
    said = reader.section(
        PAGE, "A day with it",
        words=words, before={"berth exec train": staying}, typed={"berth exec train": "echo in the task\n"},
    )  # fmt: skip
    assert lines([*said.values()][0]) == ["lr 0.1"]
    assert lines(said["berth submit train.yaml --follow"]) == ["trained"]
    assert lines(said["berth logs -f train"]) == ["trained"]
    assert said["berth exec train"].splitlines()[-1] == "in the task"
    assert (reader.folder / "checkpoints" / "last.pt").read_text() == "weights\n"
    assert "of 4 GPUs held" in said["berth top"]
    reader.section("docs/admin/troubleshooting-portal.md", "Look here first")
    (newest, *_) = user.berth.jobs.list(user="alice", name="train")
    assert newest.state in ("stopping", "stopped")

    _, again = commands_of_page("docs/user/api-watching.md", "Files")
    broken = {again: "truncate --size 100 model.pt"}
    reader.section("docs/user/api-watching.md", "Files", words={"12": str(newest.id)}, before=broken)
    assert (reader.folder / "model.pt").read_bytes() == bytes(5000)


def test_a_server_joins_by_one_line_as_the_page_says(user: Person, reader: Reader) -> None:
    with user.stack.client("root") as root, a_server(reader, opt=ROOT) as units:
        made = root.post("/join-tokens", json={"uses": 1, "hours": 1}).json()
        here = {"/opt/berth": str(ROOT)}
        words = {**here, "/etc/systemd/system": str(units), "https://berth.example.org": user.stack.url}
        reader.section(SERVERS, "Join", words={**words, "TOKEN": made["secret"]})
        wait_until(lambda: root.get("/nodes/joined").json()["health"] == "healthy", "its first report")
        reader.section("docs/admin/troubleshooting-portal.md", "What a GPU server says", words=here)
        (said,) = reader.section(SERVERS, "Check a server", words=here).values()
        read = f"{reader.folder}/berth-node.env, {reader.folder}/state/node.env"
        assert re.search(rf"^ok +files +{read}$", said, re.MULTILINE), said
        assert re.search(r"^ok +redis", said, re.MULTILINE), said
        assert re.search(r"^ok +version", said, re.MULTILINE), said


def test_a_server_joins_by_hand_as_the_page_says(user: Person, reader: Reader) -> None:
    with user.stack.client("root") as root, a_server(reader, opt=ROOT, name="by-hand") as units:
        file, own = reader.folder / "berth-node.env", reader.folder / "own.env"
        own.write_text(file.read_text())
        here = {"/etc/berth-node.env": str(file), "/var/lib/berth-node": str(reader.folder / "state")}
        elsewhere = "; ".join(f"s,{there},{path}," for there, path in here.items())
        reader.section(
            SERVERS, "Join by hand",
            words={
                "/opt/berth": str(ROOT), "/etc/systemd/system": str(units), "gpu01": "by-hand",
                "KEY": f"$(cat {reader.folder}/.notes/0.out)",
            },
            instead={"sudo sh gpu01.sh": f"sed -i '{elsewhere}' gpu01.sh && sudo sh gpu01.sh && cat {own} >> {file}"},
        )  # fmt: skip
        wait_until(lambda: root.get("/nodes/by-hand").json()["health"] == "healthy", "its first report")
