"""The double of NVIDIA's library for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.services import nvml_double as double


@pytest.fixture(scope="session")
def nvml_double(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, double.Machine]:
    folder = tmp_path_factory.mktemp("nvml")
    return double.build(folder), double.Machine(folder / "state")


@pytest.fixture
def machine(nvml_double: tuple[Path, double.Machine]) -> Iterator[double.Machine]:
    """A machine with two idle H200 under the real nvidia-ml-py."""
    library, machine = nvml_double
    machine.reset()
    with double.loaded(library, library.parent / "state"):
        yield machine
