"""The command script under Docker's own init, in each of the shells that images have."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nodes.agent.runtimes.script import LEASE_EVERY_S, script_command, script_environment
from nodes.protocol.names import OWN_COMMANDS
from tests.support.run.waiting import wait_until

TRAINER = """
import signal, sys, time
def save(*_):
    time.sleep(0.5)
    open(sys.argv[1] + "/saved", "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
open(sys.argv[1] + "/ready", "w").close()
while True:
    time.sleep(1)
"""
SHELLS = {"bash": "bash", "dash": "dash", "busybox": "busybox"}
TOOLS = ("sleep", "cat", "env", "grep", "tee")


@pytest.fixture(params=SHELLS)
def shell_path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder that is the whole PATH: `bash`, or only a plain `sh`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    name = request.param
    (folder / ("bash" if name == "bash" else "sh")).symlink_to(str(shutil.which(SHELLS[name])))
    for tool in TOOLS:
        (folder / tool).symlink_to(str(shutil.which(tool)))
    (folder / "python3").symlink_to(sys.executable)
    return folder


def run_script(script: str, path: Path, **env: str) -> subprocess.Popen[bytes]:
    init = str(shutil.which("docker-init") or shutil.which("tini"))  # by its path: PATH is the test's
    whole = {"PATH": str(path), "TINI_KILL_PROCESS_GROUP": "1", **env, **script_environment(script)}
    command = [init, "-s", "--", *script_command()]
    return subprocess.Popen(command, env=whole, stdout=subprocess.PIPE, start_new_session=True)


def output(script: str, path: Path, **env: str) -> tuple[int, str]:
    process = run_script(script, path, **env)
    out, _ = process.communicate(timeout=30)
    return process.returncode, out.decode()


@pytest.mark.parametrize("line", ["python3 {train} {out}", "python3 {train} {out} | cat"], ids=["alone", "in a pipe"])
def test_a_stop_reaches_the_trainer_and_the_shell_waits_until_it_has_saved(
    shell_path: Path, tmp_path: Path, line: str
) -> None:
    train = tmp_path / "train.py"
    train.write_text(TRAINER)
    script = f"echo before\n{line.format(train=train, out=tmp_path)}\necho after"
    process = run_script(script, shell_path)
    wait_until((tmp_path / "ready").exists, "the trainer")
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    assert (tmp_path / "saved").exists()
    assert 0.5 <= time.monotonic() - began < 5
    assert out.decode() == "before\n"
    assert process.returncode == 143


@pytest.mark.parametrize(
    ("script", "code", "out"),
    [
        ("echo one\necho two", 0, "one\ntwo\n"),
        ("echo one\nfalse\necho two", 1, "one\n"),
        ("exit 7", 7, ""),
        ("cat <<EOF\n$HELLO 'x' \"y\"\nEOF", 0, "world 'x' \"y\"\n"),
        ("env | grep -c BERTH_SCRIPT || true", 0, "0\n"),
        ("nowhere_such_command", 127, ""),
        ("", 0, ""),
    ],
    ids=["in order", "stops at the first failure", "its own status", "quoting", "not inherited", "unknown", "empty"],
)
def test_a_script_runs_as_written_and_ends_with_its_own_status(
    shell_path: Path, script: str, code: int, out: str
) -> None:
    assert output(script, shell_path, HELLO="world") == (code, out)


def test_a_script_longer_than_one_variable_may_be_arrives_whole(shell_path: Path) -> None:
    word = "ä" * 200_000
    assert output(f'X={word}\necho "$X"', shell_path, LC_ALL="C.UTF-8") == (0, word + "\n")


@pytest.mark.parametrize("before", ["", f"before() {{\n :\n}}\n{OWN_COMMANDS}"], ids=["alone", "behind others"])
def test_what_a_shell_complains_of_is_named_by_the_line_of_the_jobs_own_commands(shell_path: Path, before: str) -> None:
    script = f"exec 2>&1\necho $#\nno_such_command || :\nif true; then\n  no_such_place || :\nfi\n{'x' * 5} || echo end"
    code, out = output(before + script, shell_path)
    complaints = re.findall(r"(?:line )?(\d+): (?:eval: )?(\w+): ", out)
    assert (code, out[:2]) == (0, "0\n"), "the script has no arguments"
    assert complaints == [("3", "no_such_command"), ("5", "no_such_place"), ("7", "xxxxx")]


def test_the_commands_that_stand_before_the_jobs_own_may_be_longer_than_one_variable(shell_path: Path) -> None:
    word = "x" * 200_000
    script = f'X={word}\n{OWN_COMMANDS}Y={word}\n[ "$X" = "$Y" ]\nenv | grep -c BERTH_SCRIPT || true'
    assert output(script, shell_path) == (0, "0\n")


def test_no_word_of_the_script_stands_in_the_command_line() -> None:
    assert "hunter2" not in " ".join(script_command())
    assert script_environment("echo hunter2") == {"BERTH_SCRIPT": "echo hunter2"}


def test_the_lease_is_touched_at_once_and_no_wait_of_the_script_waits_for_it(shell_path: Path, tmp_path: Path) -> None:
    lease = tmp_path / "lease"
    process = run_script("sleep 0.1 &\nwait\necho waited", shell_path, BERTH_LEASE=str(lease), BERTH_ATTEMPT_ID="a1")
    out, _ = process.communicate(timeout=8)
    assert out == b"waited\n"
    wait_until(lambda: lease.exists() and lease.read_text() == "a1 1\n", "the lease")
    _end_group(process.pid)


def test_the_lease_is_touched_as_often_as_the_agent_says() -> None:
    assert f"sleep {LEASE_EVERY_S}; done" in script_command()[-1]


def test_the_lease_goes_on_while_the_trainer_saves(shell_path: Path, tmp_path: Path) -> None:
    lease, train = tmp_path / "lease", tmp_path / "train.py"
    train.write_text(TRAINER)
    process = run_script(f"python3 {train} {tmp_path}", shell_path, BERTH_LEASE=str(lease))
    wait_until(lambda: (tmp_path / "ready").exists() and lease.exists(), "the trainer and its lease")
    toucher = _touchers(process.pid)
    process.send_signal(signal.SIGTERM)
    process.wait(30)
    assert toucher
    assert toucher == _touchers(process.pid)
    _end_group(process.pid)


def _touchers(group: int) -> set[int]:
    """Shells of the process group that ignore SIGTERM."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.getpgid(int(entry.name)) in _groups(group) and _ignores_term(entry):
                found.add(int(entry.name))
        except (OSError, ProcessLookupError):
            continue
    return found


def _groups(session: int) -> set[int]:
    """Process groups of the session that init leads."""
    groups = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.getsid(int(entry.name)) == session:
                groups.add(os.getpgid(int(entry.name)))
        except (OSError, ProcessLookupError):
            continue
    return groups


def _ignores_term(entry: Path) -> bool:
    ignored = next(line for line in (entry / "status").read_text().splitlines() if line.startswith("SigIgn"))
    shell = (entry / "comm").read_text().strip() in ("bash", "sh", "dash", "busybox")
    return shell and bool(int(ignored.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def _end_group(session: int) -> None:
    for group in _groups(session):
        os.killpg(group, signal.SIGKILL)
