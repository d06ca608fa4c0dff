"""The state of the double of NVIDIA's library: the structures of `tests/data/doubles/nvml.c` over the same file."""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path
from typing import Any

GPUS, INSTANCES, PROCESSES, EVENTS = 16, 8, 8, 32
MAGIC = 0x4E564D4C
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
        *_each(U64, "mem_total mem_used energy clock_reasons ecc_uncorr ecc_corr"),
        *_each(U32, "gpu_util mem_util temp power lost mig minor"),
        ("remap", U32 * 4),
        *_each(U32, "recovery nvlinks_up ecc_on nproc"),
        *(("proc", Process * PROCESSES), ("gi", Instance * INSTANCES)),
    )


class Event(ctypes.Structure):
    _fields_ = (*_each(U32, "gpu taken"), *_each(U64, "type data"), *_each(U32, "gi ci"))


class State(ctypes.Structure):
    _fields_ = (
        *_each(U32, "magic ngpu driver_missing nev"),
        *(("driver", ctypes.c_char * 32), ("cuda", ctypes.c_int), ("ev", Event * EVENTS)),
        *(("limits_api", U64), ("gpu", Gpu * GPUS)),
    )


def create(path: Path, gpus: int) -> Any:
    """The state of so many healthy, idle H200; whoever has the file mapped already sees it."""
    fresh: Any = State(magic=MAGIC, ngpu=gpus, driver=b"580.159.04", cuda=13000)
    for number in range(gpus):
        gpu = fresh.gpu[number]
        gpu.uuid = b"GPU-%08x-0000-4000-8000-00000000000%x" % (0xFA4E0000 + number, number)
        gpu.name, gpu.bus = b"NVIDIA H200", b"00000000:%02X:00.0" % (0x1B + number)
        gpu.mem_total, gpu.minor, gpu.temp, gpu.power = 143771 << 20, number, 31, 76000
        gpu.ecc_on, gpu.nvlinks_up = 1, 18
    path.touch()
    with path.open("r+b") as file:
        file.write(bytes(fresh))
        file.flush()
        return State.from_buffer(mmap.mmap(file.fileno(), ctypes.sizeof(State)))


def raise_xid(state: Any, gpu: int, xid: int) -> None:
    """The next event that is waited for: an Xid (8) of the whole GPU."""
    event = state.ev[state.nev % EVENTS]
    event.gpu, event.type, event.data, event.gi, event.ci, event.taken = gpu, 8, xid, 0xFFFFFFFF, 0xFFFFFFFF, 0
    state.nev += 1
