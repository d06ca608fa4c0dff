"""A check in a process of its own, with all that it starts; killed when its time is over."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.gpu_check.bench import ROOT
from tests.gpu_check.checks import CHECKS, LOOK

DIES_S = 10
"""A process that has not gone so long after SIGKILL waits in the driver."""


@dataclass(slots=True)
class Outcome:
    """``result``: passed, failed, or not here. ``stuck``: it could not even be killed."""

    check: str
    result: str
    text: str
    seconds: float
    figures: dict[str, Any]
    stuck: bool = False

    def as_json(self) -> str:
        return json.dumps(asdict(self))


def run(name: str, folder: Path, limit_s: float, uuid: str = "", torch_python: str = "") -> Outcome:
    """Its output stays in the folder, as `CHECK.jsonl` and `CHECK.err`."""
    said, errors = folder / f"{name}.jsonl", folder / f"{name}.err"
    begun = time.monotonic()
    with said.open("wb") as out, errors.open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.gpu_check.one", name, uuid, str(limit_s), torch_python],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
        )  # fmt: skip
        try:
            process.wait(limit_s)
            late = False
        except subprocess.TimeoutExpired:
            late = True
        finally:
            stuck = not ended(process)
    figures = measured(said)
    result, text = figures.pop("result", "failed"), figures.pop("text", "")
    if late:
        result, text = "failed", f"killed: it was not done after {limit_s:.0f} s"
    elif not text:
        text = died(process.returncode, errors)
    return Outcome(name, result, text + (STUCK if stuck else ""), round(time.monotonic() - begun, 1), figures, stuck)


STUCK = "; its process does not end, so it waits in the driver, and the server has to be restarted"


def ended(process: subprocess.Popen[bytes]) -> bool:
    """Kills the process and what it started; whether all are gone."""
    end = time.monotonic() + DIES_S
    while living(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    process.wait()
    return True


def living(group: int) -> bool:
    """Whether the group of processes has one that is not a zombie."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = path.read_text().rpartition(")")[2].split()[:3]
        except OSError:  # it has just ended
            continue
        if int(its_group) == group and state != "Z":
            return True
    return False


def measured(said: Path) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for line in said.read_text().splitlines():
        try:
            figures |= json.loads(line)
        except ValueError:  # half a line of one that was killed
            continue
    return figures


def died(code: int, errors: Path) -> str:
    lines = errors.read_text().strip().splitlines()
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return f"its process ended with {how}" + (f": {lines[-1][:300]}" if lines else "")


def look(folder: Path) -> Outcome:
    """The GPUs of this machine."""
    return run("look", folder, LOOK.limit_s)


def check(name: str, folder: Path, uuid: str, torch_python: str, left_s: float) -> Outcome:
    return run(name, folder, min(CHECKS[name].limit_s, left_s), uuid, torch_python)
