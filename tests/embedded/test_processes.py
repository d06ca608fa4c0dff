"""The processes of the embedded stack end with whoever started them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.stack import ROOT
from tests.support.waiting import wait_until

STACK = """
import os, sys
from portal.embedded.processes import Processes

with open(sys.argv[1], "a", buffering=1) as log:
    lines = {"web": ["sleep", "1000"], "agent": ["sleep", "1000"]}
    Processes(lines=lines, environment=dict(os.environ), log=log).run()
    print("ended in order", file=log)
"""


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("wrapper", [["env", "--default-signal=HUP"], ["nohup"]])  # whatever the tests began under
def test_who_closes_the_terminal_ends_the_stack_but_under_nohup(tmp_path: Path, wrapper: list[str]) -> None:
    log = tmp_path / "stack.log"
    log.touch()
    ours, theirs = os.openpty()
    line = ["setsid", "--ctty", *wrapper, sys.executable, "-c", STACK, str(log)]
    # Not in the project's folder: nohup leaves its nohup.out where it stands.
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    stack = subprocess.Popen(line, cwd=tmp_path, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    pids: list[int] = []
    try:
        wait_until(lambda: log.read_text().count("started (pid=") == 2, "both processes", deadline_s=30)
        pids = [int(pid) for pid in re.findall(r"started \(pid=(\d+)\)", log.read_text())]
        os.close(ours)
        if wrapper == ["nohup"]:
            with pytest.raises(subprocess.TimeoutExpired):
                stack.wait(1)
            assert all(map(alive, pids))
            stack.terminate()
        stack.wait(30)
        wait_until(lambda: not any(map(alive, pids)), "the end of both", deadline_s=10)
        assert "ended in order" in log.read_text()
    finally:
        stack.kill()
        stack.wait()
        for pid in filter(alive, pids):
            os.kill(pid, 9)
