"""The processes of the embedded stack end with whoever started them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster.stack import ROOT
from tests.support.run.waiting import wait_until

STACK = """
import os, sys
from pathlib import Path
from portal.embedded.processes import Processes
from portal.embedded.stack_log import StackLog

with StackLog(Path(sys.argv[1])) as log:
    lines = {"web": ["sleep", "1000"], "agent": ["sleep", "1000"]}
    Processes(lines=lines, environment=dict(os.environ), log=log).run()
    print("ended in order", file=log)
"""


TALKING = """
import os, sys
from pathlib import Path
from portal.embedded.processes import Processes
from portal.embedded.stack_log import StackLog

with StackLog(Path(sys.argv[1]), most=20_000) as log:
    lines = {"web": ["seq", "-f", "line %g of web", "1000"]}
    Processes(lines=lines, environment=dict(os.environ), log=log).run()
"""


def test_the_log_is_turned_over_and_one_older_file_kept(tmp_path: Path) -> None:
    log, older = tmp_path / "stack.log", tmp_path / "stack.log.1"
    log.write_text("an earlier start\n" * 2000)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", TALKING, str(log)], cwd=tmp_path, env=environment, check=True, timeout=60)
    assert sorted(tmp_path.iterdir()) == [log, older]
    assert max(log.stat().st_size, older.stat().st_size) <= 20_000
    kept = [line.rpartition("| ")[2] for line in (older.read_text() + log.read_text()).splitlines() if "of web" in line]
    assert kept == [f"line {number} of web" for number in range(1001 - len(kept), 1001)], "none is cut or missing"
    assert len(kept) > 500


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
