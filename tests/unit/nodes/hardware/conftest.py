"""A machine with made-up GPUs for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.gpu.machine import Machine, loaded


@pytest.fixture(scope="session")
def made_machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path_factory.mktemp("gpus"))


@pytest.fixture
def machine(made_machine: Machine) -> Iterator[Machine]:
    """A machine with two idle H200 under the real nvidia-ml-py."""
    made_machine.reset()
    with loaded(made_machine):
        yield made_machine
