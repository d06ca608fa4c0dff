"""A machine with made-up GPUs under the real nvidia-ml-py and under programs that use CUDA: both libraries' doubles
share its state, in whatever process or container they are loaded."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pynvml

from tests.support.gpu.build import built

GPUS, INSTANCES, DECLARED, XIDS, FAULTS = 16, 8, 8, 32, 16
HANGS, CRASHES, KILLED, BREAKS, DAMAGES = range(0x10000, 0x10005)
"""Beside an answer, what a call does: never come back; end the process by SIGSEGV; by SIGKILL, the machine locked; lose
the process that it restores; restore it with wrong bytes in its memory."""

ALWAYS = 0xFFFFFFFF
U32, U64 = ctypes.c_uint, ctypes.c_ulonglong


def _each(kind: Any, names: str) -> list[tuple[str, Any]]:
    return [(name, kind) for name in names.split()]


class Process(ctypes.Structure):
    _fields_ = (*_each(U32, "pid pad"), ("used", U64), *_each(U32, "gi ci"))


class Instance(ctypes.Structure):
    _fields_ = (*_each(U32, "used id profile start size cprofile ci_used ci_id"), ("uuid", ctypes.c_char * 64))


class Gpu(ctypes.Structure):
    _fields_ = (
        *(("uuid", ctypes.c_char * 64), ("name", ctypes.c_char * 96), ("bus", ctypes.c_char * 32)),
        *_each(U64, "mem_total mem_used mem_reserved context_bytes stays_bytes"),
        *_each(U64, "energy clock_reasons ecc_uncorr ecc_corr out_ns_per_gb in_ns_per_gb"),
        *_each(U32, "gpu_util mem_util temp power lost mig minor"),
        ("remap", U32 * 4),
        *_each(U32, "recovery nvlinks_up ecc_on gpm persistence sm_clock nproc"),
        *(("proc", Process * DECLARED), ("gi", Instance * INSTANCES)),
    )


class Event(ctypes.Structure):
    _fields_ = (*_each(U32, "gpu taken"), *_each(U64, "type data"), *_each(U32, "gi ci"))


class Fault(ctypes.Structure):
    _fields_ = (("call", ctypes.c_char * 56), ("gpu", ctypes.c_int), *_each(U32, "code left"))


class Declared(ctypes.Structure):
    """What a test may set: `declared_machine_t` of machine.h."""

    _fields_ = (
        *_each(U32, "magic ngpu missing loaded nxid waits"),
        *(("cuda", ctypes.c_int), ("rate", U32), ("driver", ctypes.c_char * 32)),
        *(("fault", Fault * FAULTS), ("xid", Event * XIDS), ("gpu", Gpu * GPUS)),
    )


class Machine:
    """GPUs in a folder that their processes share; every change is seen at once. Time stands still there but for what
    somebody waits for, until ``speed`` says otherwise."""

    def __init__(self, folder: Path, *, gpus: int = 2) -> None:
        self.folder, self._gpus = folder, gpus
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o777)
        self._library = ctypes.CDLL(str(built() / "libnvidia-ml.so.1"))
        assert self._asked("machine_size") == ctypes.sizeof(Declared), "machine.h has another layout than this file"
        assert not self._asked("machine_create"), f"no machine can be made in {folder}"
        for name in ("state", "owners"):
            (folder / name).chmod(0o666)
        with (folder / "state").open("r+b") as file:
            self.state: Any = Declared.from_buffer(mmap.mmap(file.fileno(), 0), self._asked("machine_offset"))
        self.reset()

    @property
    def env(self) -> dict[str, str]:
        """For a program on this machine."""
        return {"GPU_MACHINE": str(self.folder), "LD_LIBRARY_PATH": str(built())}

    def reset(self) -> None:
        """Healthy, idle H200, and a driver that answers."""
        state = self.state
        for part in (state.fault, state.xid, state.gpu):
            ctypes.memset(ctypes.addressof(part), 0, ctypes.sizeof(part))
        state.ngpu, state.driver, state.cuda = self._gpus, b"580.159.04", 13000
        state.missing = state.nxid = state.waits = 0
        for number in range(self._gpus):
            gpu = state.gpu[number]
            gpu.uuid = b"GPU-%08x-0000-4000-8000-00000000000%x" % (0xFA4E0000 + number, number)
            gpu.name, gpu.bus, gpu.minor = b"NVIDIA H200", b"00000000:%02X:00.0" % (0x1B + number), number
            gpu.mem_total, gpu.mem_reserved, gpu.context_bytes = 143771 << 20, 615 << 20, 512 << 20
            gpu.out_ns_per_gb, gpu.in_ns_per_gb = 600_000_000, 230_000_000
            gpu.temp, gpu.power, gpu.sm_clock = 31, 76000, 1980
            gpu.ecc_on, gpu.nvlinks_up, gpu.gpm, gpu.persistence = 1, 18, 1, 1

    def gpu(self, index: int) -> Any:
        return self.state.gpu[index]

    def run_process(self, index: int, pid: int, mebibytes: int) -> None:
        """One that is only told of."""
        gpu = self.gpu(index)
        gpu.proc[gpu.nproc].pid, gpu.proc[gpu.nproc].used = pid, mebibytes << 20
        gpu.nproc += 1

    def fail(self, call: str, code: int, *, gpu: int = -1, times: int = ALWAYS) -> None:
        """The call answers with this code, so many times; ``gpu``: only where it asks for this one."""
        fault = next(one for one in self.state.fault if not one.left)
        fault.call, fault.gpu, fault.code = call.encode(), gpu, code
        fault.left = times

    def mend(self) -> None:
        """Every call works."""
        for fault in self.state.fault:
            fault.left = 0

    def no_driver(self) -> None:
        """As after `rmmod nvidia`."""
        self.state.missing = 1

    def load_driver(self) -> None:
        """Another one than before: it knows of nobody who asked that."""
        self.state.missing, self.state.loaded = 0, self.state.loaded + 1

    def raise_xid(self, index: int, xid: int) -> None:
        """The next event that is waited for, of the whole GPU."""
        event = self.state.xid[self.state.nxid % XIDS]
        event.gpu, event.type, event.data, event.gi, event.ci, event.taken = index, 8, xid, ALWAYS, ALWAYS, 0
        self.state.nxid += 1

    def advance(self, seconds: float) -> None:
        """Time passes for the GPUs."""
        self._asked("machine_advance", U64(round(seconds * 1e9)))

    def speed(self, rate: int) -> None:
        """So many seconds pass in one of ours; 0: only what somebody waits for."""
        self._asked("machine_rate", U32(rate))

    def now(self) -> float:
        """The GPUs' clock, in seconds."""
        return self._asked("machine_now") / 1e9

    def _asked(self, name: str, *arguments: Any) -> int:
        with _named(self.folder):
            if name not in ("machine_create", "machine_size", "machine_offset"):
                self._library.machine_attach()
            function = getattr(self._library, name)
            function.restype = U64
            return int(function(*arguments))


@contextmanager
def _named(folder: Path) -> Iterator[None]:
    before = os.environ.get("GPU_MACHINE")
    os.environ["GPU_MACHINE"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["GPU_MACHINE"]
        else:
            os.environ["GPU_MACHINE"] = before


@contextmanager
def loaded(machine: Machine) -> Iterator[None]:
    """nvidia-ml-py of this process asks the machine, for as long as this lasts."""
    real = pynvml.nvmlLib
    pynvml.nvmlLib = ctypes.CDLL(str(built() / "libnvidia-ml.so.1"))
    pynvml._nvmlGetFunctionPointer_cache.clear()
    try:
        with _named(machine.folder):
            yield
    finally:
        pynvml.nvmlLib = real
        pynvml._nvmlGetFunctionPointer_cache.clear()
