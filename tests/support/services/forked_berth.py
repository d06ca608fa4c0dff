"""The `berth` command without the start of Python and its imports, which is most of what a short command takes: one
process has all imported, and each command is a fork of it. Run as `python -m tests.support.services.forked_berth`.

It reads a line for each command, {"words", "folder", "environment", "files"}, and prints its exit status as the
system has it; "files" are those for standard input, output and error.
"""

from __future__ import annotations

import gc
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[3]
DEADLINE_S = 60


class ForkedBerth:
    """The tests' side: ends when they do."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.services.forked_berth"], cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT / "client")}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, start_new_session=True,
        )  # fmt: skip

    def run(
        self, words: tuple[str, ...], folder: Path, environment: Mapping[str, str], typed: str
    ) -> tuple[int, str, str]:
        """Exit status, output and errors of one command."""
        assert self._process.stdin
        assert self._process.stdout
        with TemporaryDirectory() as made:
            files = [Path(made, name) for name in ("in", "out", "errors")]
            files[0].write_text(typed)
            asked = {
                "words": words,
                "folder": str(folder),
                "environment": dict(environment),
                "files": [*map(str, files)],
            }
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
            status = int(self._process.stdout.readline())
            return status, files[1].read_text(), files[2].read_text()


@cache
def forked_berth() -> ForkedBerth:
    """The one of this run."""
    return ForkedBerth()


def become(asked: dict[str, Any]) -> None:
    """The process that was asked for, up to its command."""
    signal.alarm(DEADLINE_S)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    modes = (os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT)
    for number, (name, mode) in enumerate(zip(asked["files"], modes, strict=True)):
        opened = os.open(name, mode)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - the other one has read from the tests
    sys.argv = ["berth", *asked["words"]]


def main() -> None:
    from berth.cli.app import app
    from berth.cli.app import main as berth

    with redirect_stdout(io.StringIO()), suppress(SystemExit):
        app(["ls", "--help"])  # what Typer imports when it runs
    gc.freeze()
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            become(json.loads(line))
            berth()
            return
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
