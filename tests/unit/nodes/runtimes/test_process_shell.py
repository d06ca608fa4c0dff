"""A program beside a task of the process runtime, whose input has ended."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodes.agent.runtimes.base import ShellEnded
from nodes.agent.runtimes.process.shell import ProcessShell
from nodes.protocol.sessions import ShellRequest


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[ProcessShell]:
    request = ShellRequest(attempt="a", command=("cat",), tty=False)
    shell = ProcessShell(request, task=os.getpid(), folder=tmp_path, runs=lambda: True)
    yield shell
    shell.close()


def test_what_comes_after_the_end_of_its_input_goes_into_nobody_elses(shell: ProcessShell) -> None:
    shell.write(b"typed")
    shell.finish()
    others = [os.pipe() for _ in range(20)]  # one of them gets the number of what was closed
    try:
        with pytest.raises(ShellEnded):
            shell.write(b"for nobody")
        shell.resize(1, 1)
        shell.finish()
        for reading, _ in others:
            os.set_blocking(reading, False)
            with pytest.raises(BlockingIOError):
                os.read(reading, 100)
    finally:
        for pipe in others:
            for end in pipe:
                os.close(end)
    assert shell.read() == (1, b"typed")
    assert shell.read() is None
    assert shell.wait() == 0
