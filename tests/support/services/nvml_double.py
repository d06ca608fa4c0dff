"""The test double of NVIDIA's management library, built with gcc; the real nvidia-ml-py runs on top of it."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pynvml

from tests.support.run.facts import DATA
from tests.support.services import nvml_double_state as double_state

SOURCES = DATA / "doubles"


def build(folder: Path) -> Path:
    """The shared library in ``folder``."""
    library = folder / "libnvidia-ml.so.1"
    source = Path(__file__).with_name("double.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-O1", "-I", SOURCES, "-o", library, source], check=True)
    return library


class Faults(ctypes.Structure):
    """As in double.c. ``set``, ``wait``, ``registering``, ``processes``: NVML's error that these calls answer with, 0:
    none; ``waits`` counts how often events were waited for."""

    _fields_ = (
        ("loaded", ctypes.c_uint), ("missing", ctypes.c_uint), ("set", ctypes.c_uint), ("wait", ctypes.c_uint),
        ("waits", ctypes.c_uint), ("registering", ctypes.c_uint * 16), ("processes", ctypes.c_uint),
    )  # fmt: skip


class Machine:
    """The GPUs of a made-up machine; the double sees every change at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults = _mapped(path.with_name(f"{path.name}.faults"))
        self.reset()

    def reset(self) -> None:
        """Two healthy, idle H200, and a driver that answers."""
        loaded = self.faults.loaded
        ctypes.memset(ctypes.addressof(self.faults), 0, ctypes.sizeof(self.faults))
        self.faults.loaded = loaded
        self.state = double_state.create(self.path, gpus=2)

    def gpu(self, index: int) -> Any:
        return self.state.gpu[index]

    def run_process(self, index: int, pid: int, mebibytes: int) -> None:
        gpu = self.gpu(index)
        gpu.proc[gpu.nproc].pid, gpu.proc[gpu.nproc].used = pid, mebibytes << 20
        gpu.nproc += 1

    def no_driver(self) -> None:
        """As after `rmmod nvidia`."""
        self.faults.missing = 1

    def load_driver(self) -> None:
        """Another one than before: it knows of nobody who asked that."""
        self.faults.missing, self.faults.loaded = 0, self.faults.loaded + 1

    def raise_xid(self, index: int, xid: int) -> None:
        double_state.raise_xid(self.state, index, xid)


def _mapped(path: Path) -> Faults:
    path.write_bytes(bytes(ctypes.sizeof(Faults)))
    with path.open("r+b") as file:
        return Faults.from_buffer(mmap.mmap(file.fileno(), ctypes.sizeof(Faults)))


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
