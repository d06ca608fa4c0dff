"""A trainer that prints while it saves is not ended by the end of who reads what it prints."""

from __future__ import annotations

from pathlib import Path
from signal import SIGTERM

import pytest

from nodes.agent.logs.base import Position
from nodes.agent.runtimes.base import Status
from nodes.agent.runtimes.process.runtime import ProcessRuntime
from tests.support.run.waiting import wait_until
from tests.unit.nodes.runtimes.test_process import ended, output, started

TRAINER = """
import signal, sys, time
def save(*_):
    print("saving", flush=True)
    time.sleep(1)
    print("saved", flush=True)
    open(sys.argv[1], "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while True:
    time.sleep(0.1)
"""
LAUNCHER = """
import signal, subprocess, sys
worker = subprocess.Popen(sys.argv[1:])
signal.signal(signal.SIGTERM, lambda *_: None)
sys.exit(worker.wait())
"""
"""As torchrun is: it waits for its workers."""
READER = """
import signal, sys
def leave(*_):
    print("told", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
for line in sys.stdin:
    print(line, end="", flush=True)
"""


def stopped(runtime: ProcessRuntime, attempt: str) -> int | None:
    """Its exit status, after SIGTERM to who is first and to the rest."""

    def over() -> bool:
        found = runtime.find(attempt)
        runtime.signal_pipe_readers(attempt, last=False)
        return found is not None and found.status is Status.ENDED

    runtime.signal(attempt, SIGTERM)
    wait_until(over, "the task's end", every_s=0.5)
    ending = ended(runtime, attempt).ending
    return ending.code if ending else None


@pytest.mark.parametrize(
    "script",
    [
        "{train} | tee {log}",
        "exec > >(tee {log})\n{train}",
        "sh -c '{train} | tee {log}'",
        "exec dash -e -c '{train} | tee {log}'",
        "nohup {train} | tee {log}",
        "{python} {launch} {train} 2>&1 | tee {log}",
        "{train} | while read -r line; do echo $line; done | tee {log}",
        "{train} | while read -r line; do sleep 1; echo $line; done | tee {log}",
        "while :; do echo more; sleep 0.1; done | {train} | tee {log}",
        "sh <<END\n{train} | tee {log}\nEND",
        "timeout 600 {train} | tee {log}",
        "timeout 600 sh -c '{train} | tee {log}'",
        "sh -c 'timeout 600 {train} | tee {log}'",
        "set -m\n{train} | tee {log} &\nwait",
    ],
    ids=[
        "pipe",
        "exec",
        "sh",
        "dash",
        "nohup",
        "launcher",
        "loop",
        "slow loop",
        "reads itself",
        "here",
        "timeout",
        "sh in timeout",
        "timeout in sh",
        "job control",
    ],
)
def test_what_a_trainer_prints_while_it_saves_reaches_its_log_and_the_checkpoint_is_whole(
    runtime: ProcessRuntime, tmp_path: Path, script: str
) -> None:
    (folder := tmp_path / "out").mkdir()
    folder.chmod(0o777)
    (train := tmp_path / "train.py").write_text(TRAINER)
    (launch := tmp_path / "launch.py").write_text(LAUNCHER)
    log, saved = folder / "log", folder / "saved"
    words = {"python": "python3", "train": f"python3 {train} {saved}", "launch": launch, "log": log}
    attempt = started(runtime, script.format(**words)).attempt
    wait_until(lambda: log.exists() and "ready" in log.read_text(), "the trainer")

    assert stopped(runtime, attempt) == 143
    assert saved.exists(), (log.read_text(), output(runtime, attempt))
    assert log.read_text() == "ready\nsaving\nsaved\n"
    printed = [line for line in output(runtime, attempt).splitlines() if line in ("ready", "saving", "saved")]
    assert printed == ["ready", "saving", "saved"], "whatever shells say of the signal"


def test_who_reads_is_told_at_last_where_who_writes_does_not_end(runtime: ProcessRuntime, tmp_path: Path) -> None:
    (reader := tmp_path / "reader.py").write_text(READER)
    script = f"(trap '' TERM; echo ready; while :; do sleep 0.1; done) | python3 {reader}"
    attempt = started(runtime, script).attempt
    records = runtime.source(attempt).frames(Position())
    assert next(records).payload == b"ready\n"
    runtime.signal(attempt, SIGTERM)
    assert [runtime.signal_pipe_readers(attempt, last=False) for _ in range(4)] == [True] * 4
    assert not runtime.signal_pipe_readers(attempt, last=True)
    assert next(records).payload == b"told\n"


def test_who_prints_while_it_saves_is_told_before_its_reader_also_at_last(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    (folder := tmp_path / "out").mkdir()
    folder.chmod(0o777)
    (train := tmp_path / "train.py").write_text(TRAINER)
    deaf = "(trap '' TERM; while :; do echo more; sleep 0.1; done)"
    attempt = started(runtime, f"{deaf} | python3 {train} {folder}/saved | tee {folder}/log").attempt
    wait_until(lambda: (folder / "log").exists() and (folder / "log").read_text(), "the trainer")
    runtime.signal(attempt, SIGTERM)
    assert runtime.signal_pipe_readers(attempt, last=False)
    assert not runtime.signal_pipe_readers(attempt, last=True)
    ended(runtime, attempt)
    assert (folder / "saved").exists()
    assert (folder / "log").read_text() == "ready\nsaving\nsaved\n"


def test_the_last_lines_of_a_script_that_ends_by_itself_are_read(runtime: ProcessRuntime, tmp_path: Path) -> None:
    """``exec > >(tee log)``: the shell is gone before what it started to read."""
    (folder := tmp_path / "out").mkdir()
    folder.chmod(0o777)
    slow = f"(sleep 1; cat >{folder}/log)"
    attempt = started(runtime, f"exec > >{slow}\necho one\necho last\nexit 3").attempt
    ending = ended(runtime, attempt).ending
    assert ending is not None
    assert ending.code == 3
    assert (folder / "log").read_text() == "one\nlast\n"


def test_a_script_that_leaves_nobody_who_reads_ends_at_once(runtime: ProcessRuntime) -> None:
    attempt = started(runtime, "sleep 600 </dev/null >/dev/null 2>&1 &\necho done").attempt
    wait_until(lambda: (found := runtime.find(attempt)) and found.status is Status.ENDED, "the end", deadline_s=4)


def test_who_waited_is_forgotten_with_the_task(runtime: ProcessRuntime) -> None:
    attempt = started(runtime, "(trap '' TERM; echo ready; while :; do sleep 0.1; done) | cat").attempt
    assert next(runtime.source(attempt).frames(Position())).payload == b"ready\n"
    runtime.signal(attempt, SIGTERM)
    assert runtime.signal_pipe_readers(attempt, last=False)
    runtime.remove(attempt)
    assert not runtime.signal_pipe_readers(attempt, last=True)
