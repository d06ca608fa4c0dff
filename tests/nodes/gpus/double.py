"""The test double of NVIDIA's management library, built with gcc; the real nvidia-ml-py runs on top of it."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pynvml

SOURCES = Path(__file__).parents[4] / "shared" / "gpu" / "doubles"


def build(folder: Path) -> Path:
    """The shared library in ``folder``."""
    library = folder / "libnvidia-ml.so.1"
    source = SOURCES / "fakenvml.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-O1", "-o", library, source], check=True)
    return library


def layout() -> ModuleType:
    """The Python side of the double's state file."""
    spec = importlib.util.spec_from_file_location("fakestate", SOURCES / "fakestate.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Machine:
    """The GPUs of a made-up machine; the double sees every change at once."""

    def __init__(self, path: Path) -> None:
        self._layout = layout()
        self._path = path
        self.state: Any = None
        self.reset()

    def reset(self) -> None:
        """Two healthy, idle H200."""
        if not self._path.exists():
            self._layout.create(self._path, n=2)
        fresh = self._path.with_suffix(".fresh")
        self._layout.create(fresh, n=2)
        self._path.open("r+b").write(fresh.read_bytes())
        self.state = self._layout.attach(self._path)

    def gpu(self, index: int) -> Any:
        return self.state.gpu[index]

    def run_process(self, index: int, pid: int, mebibytes: int) -> None:
        gpu = self.gpu(index)
        gpu.proc[gpu.nproc].pid, gpu.proc[gpu.nproc].used = pid, mebibytes << 20
        gpu.nproc += 1

    def raise_xid(self, index: int, xid: int) -> None:
        self._layout.raise_xid(self.state, index, xid)


@contextmanager
def loaded(library: Path, state: Path) -> Iterator[None]:
    """nvidia-ml-py over the double, for as long as this lasts."""
    os.environ["FAKE_NVML_STATE"] = str(state)
    real = pynvml.nvmlLib
    pynvml.nvmlLib = ctypes.CDLL(str(library))
    pynvml._nvmlGetFunctionPointer_cache.clear()
    try:
        yield
    finally:
        pynvml.nvmlLib = real
        pynvml._nvmlGetFunctionPointer_cache.clear()
        del os.environ["FAKE_NVML_STATE"]
