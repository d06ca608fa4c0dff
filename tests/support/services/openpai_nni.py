"""NNI's training service for OpenPAI, as PyPI has it: JavaScript inside a wheel, installed once, run with Node."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.services.openpai_sdk import ROOT, WITH_NODE

FOLDER = ROOT / "tests" / "integration" / "openpai" / "nni"
WANTED = FOLDER / "requirements.txt"
SITE = ROOT / ".make" / "nni"
CODE = SITE / "nni_node"
DONE = SITE / ".done"
INSTALL_S = 240


def install() -> str | None:
    """Bring what the requirements name, where it is newer than what is there; why that cannot be, else None. Test runs
    beside this one wait. Of NNI only the JavaScript of its manager is kept."""
    with WANTED.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if DONE.exists() and DONE.stat().st_mtime >= WANTED.stat().st_mtime:
            return None
        shutil.rmtree(SITE, ignore_errors=True)
        uv = Path(sys.executable).with_name("uv")
        command = [str(uv), "pip", "install", "--no-config", "--quiet", "--python", sys.executable, "--no-deps"]
        command += ["--require-hashes", "--link-mode", "copy", "--target", str(SITE), "-r", str(WANTED)]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
        except (subprocess.TimeoutExpired, OSError) as error:
            return f"NNI could not be installed from PyPI: {error}"
        if ended.returncode:
            return f"NNI could not be installed from PyPI (BERTH_TEST_SKIP=nni leaves it out): {ended.stderr[-300:]}"
        (CODE / "node").unlink()
        for unused in (CODE / "static", *(one for one in SITE.iterdir() if one.is_dir() and one != CODE)):
            shutil.rmtree(unused)
        DONE.touch()
        return None


class Trials:
    """An experiment of NNI's that is asked for its trials."""

    def __init__(self, program: subprocess.Popen[str]) -> None:
        self._program = program

    def asked(self, *words: str) -> dict[str, Any]:
        """What NNI knows of a trial after `submit`, `show ID` or `cancel ID`."""
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.write(" ".join(words) + "\n")
        self._program.stdin.flush()
        for line in self._program.stdout:
            if line.startswith("told "):
                told: dict[str, Any] = json.loads(line.removeprefix("told "))
                return told
        raise AssertionError("NNI has ended")


@contextmanager
def trials(config: dict[str, Any], *, home: Path, port: int) -> Iterator[Trials]:
    """An experiment with this configuration of its training service; its files lie in `home`."""
    plain = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    arguments = {
        "port": port, "experiment-id": "berth", "action": "create", "experiments-directory": home, "log-level": "error",
        "mode": "openpai", "python-interpreter": sys.executable,
    }  # fmt: skip
    given = [text for name, value in arguments.items() for text in (f"--{name}", str(value))]
    with subprocess.Popen(
        [str(WITH_NODE), "node", str(FOLDER / "trials.js"), json.dumps(config), *given],
        env={**plain, "HOME": str(home), "NODE_PATH": f"{CODE}:{CODE / 'node_modules'}"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as program:  # fmt: skip
        try:
            yield Trials(program)
        finally:
            program.terminate()
