"""The output of a task of the ``process`` runtime, read as it grows."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodes.agent.logs.base import Position
from nodes.agent.runtimes.process import output as process_output
from nodes.agent.runtimes.process.output import ProcessOutput
from nodes.agent.runtimes.process.wrapper import Output
from nodes.protocol.logs import STDOUT

SILENT = 2000
"""Looks in vain: more than a minute of them by the clock."""


def test_a_task_that_was_silent_for_long_is_heard_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_output, "_WAIT_LONGEST_S", 1e-5)
    (tmp_path / "out").mkdir()
    output = Output(tmp_path / "out")
    asked = 0

    def gone() -> bool:
        """Asked once in so many looks: the task writes again after a long time."""
        nonlocal asked
        asked += 1
        if asked == SILENT // process_output._ASK_EVERY:
            output.write(STDOUT, b"still there\n")
        return asked > SILENT // process_output._ASK_EVERY

    source = ProcessOutput(tmp_path, gone, lambda signal: None)
    assert [record.payload for record in source.frames(Position())] == [b"still there\n"]
