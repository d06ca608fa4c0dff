"""A machine with two H200 and the programs on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.gpu.machine import Machine, loaded
from tests.support.gpu.program import Program

Start = Callable[..., Program]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Its GPUs are read by nvidia-ml-py in the test's own process."""
    made = Machine(tmp_path / "gpus")
    with loaded(made):
        yield made


@pytest.fixture
def start(machine: Machine) -> Iterator[Start]:
    """Starts a program with a context on its first GPU; the keywords are its environment."""
    started: list[Program] = []

    def begun(*, version: int = 13000, **env: str) -> Program:
        started.append(Program(machine, env, version=version))
        return started[-1].opened()

    yield begun
    for program in started:
        program.end()
