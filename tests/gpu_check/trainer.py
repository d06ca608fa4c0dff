"""A program on a GPU that needs nothing but the driver. Its weights lie on the GPU; each step's loss is printed to the
last bit. It ends when its standard input does, so that none is left over.

It prints `ready`, `step N LOSS` for each step, `memory intact` or `memory damaged`, and `done`; with `--spin-s` and
`--share` what it has begun, and goes on when it is given a line."""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
import threading
import time
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path

from nodes.agent.hardware.gpus.cuda import Code
from tests.gpu_check.cuda import Driver

MIB = 1 << 20
NUMBERS = 4096
BLOCK = 16 * MIB
"""What is compared at once."""

FILL_PARTS = 100
FILL_UP_TO = 97


class Told(ctypes.Structure):
    _fields_ = (("step", c_uint64), ("loss", ctypes.c_double))


class IpcHandle(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_ubyte * 64),)


class Trainer:
    def __init__(self) -> None:
        self.driver = Driver()
        context, module = c_void_p(), c_void_p()
        self.driver("cuDevicePrimaryCtxRetain", byref(context), c_int(0))
        self.driver("cuCtxSetCurrent", context)
        image = Path(__file__).with_name("kernels.ptx").read_bytes()
        self.driver("cuModuleLoadData", byref(module), ctypes.c_char_p(image))
        self._kernels = {name: self._kernel(module, name) for name in ("step", "spin")}
        self._weights, self._state = self.memory(NUMBERS * 8), self.memory(ctypes.sizeof(Told))
        for address, size in ((self._weights, NUMBERS * 8), (self._state, ctypes.sizeof(Told))):
            self.driver("cuMemsetD32_v2", address, c_uint(0), c_size_t(size // 4))
        self._held: list[tuple[c_uint64, int]] = []

    def _kernel(self, module: c_void_p, name: str) -> c_void_p:
        kernel = c_void_p()
        self.driver("cuModuleGetFunction", byref(kernel), module, ctypes.c_char_p(name.encode()))
        return kernel

    def memory(self, size: int) -> c_uint64:
        """An address on the GPU; ``size``: bytes."""
        address = c_uint64()
        self.driver("cuMemAlloc_v2", byref(address), c_size_t(size))
        return address

    def hold(self, mebibytes: int) -> None:
        """So much memory, each block with a number of its own."""
        left = mebibytes * MIB
        while left:
            size = min(left, BLOCK)
            address = self.memory(size)
            self.driver("cuMemsetD32_v2", address, c_uint(len(self._held) + 1), c_size_t(size // 4))
            self._held.append((address, size))
            left -= size

    def fill(self) -> None:
        """Most of what is free on the GPU, and it stays unwritten."""
        free, total = c_size_t(), c_size_t()
        self.driver("cuMemGetInfo_v2", byref(free), byref(total))
        for _ in range(FILL_UP_TO):
            address = c_uint64()
            if (
                self.driver.answer("cuMemAlloc_v2", byref(address), c_size_t(free.value // FILL_PARTS))
                == Code.OUT_OF_MEMORY
            ):
                return

    def intact(self) -> bool:
        """Whether all that is held is as it was written."""
        buffer, same = ctypes.create_string_buffer(BLOCK), ctypes.CDLL(None).memcmp
        for number, (address, size) in enumerate(self._held, 1):
            self.driver("cuMemcpyDtoH_v2", buffer, address, c_size_t(size))
            if same(buffer, number.to_bytes(4, "little") * (size // 4), c_size_t(size)):
                return False
        return True

    def step(self) -> Told:
        self._launch("step", self._weights, c_uint64(NUMBERS), self._state)
        told = Told()
        self.driver("cuMemcpyDtoH_v2", byref(told), self._state, c_size_t(ctypes.sizeof(told)))
        return told

    def spin(self, seconds: float) -> None:
        """Starts a kernel that takes so long."""
        self._launch("spin", c_uint64(round(seconds * 1e9)))

    def wait(self) -> None:
        self.driver("cuCtxSynchronize")

    def share(self) -> str:
        """Some memory that another process may open; its handle, as hexadecimal digits."""
        handle = IpcHandle()
        self.driver("cuIpcGetMemHandle", byref(handle), self.memory(2 * MIB))
        return bytes(handle).hex()

    def open(self, handle: str) -> None:
        address = c_uint64()
        shared = IpcHandle.from_buffer_copy(bytes.fromhex(handle))
        self.driver("cuIpcOpenMemHandle_v2", byref(address), shared, c_uint(1))

    def managed(self, mebibytes: int) -> None:
        address = c_uint64()
        self.driver("cuMemAllocManaged", byref(address), c_size_t(mebibytes * MIB), c_uint(1))

    def _launch(self, kernel: str, *parameters: c_uint64) -> None:
        """By one thread."""
        given = (c_void_p * len(parameters))(*map(ctypes.addressof, parameters))
        one = [c_uint(1)] * 6
        self.driver("cuLaunchKernel", self._kernels[kernel], *one, c_uint(0), None, given, None)


class Lines:
    """Of the standard input, whose end ends the program."""

    def __init__(self) -> None:
        self._came = threading.Semaphore(0)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for _ in sys.stdin:
            self._came.release()
        os._exit(3)

    def wait(self) -> None:
        self._came.acquire()


def say(text: str) -> None:
    print(text, flush=True)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10**9)
    parser.add_argument("--pace-ms", type=int, default=0, help="time after each step")
    parser.add_argument("--mib", type=int, default=0, help="memory that it holds")
    parser.add_argument("--managed-mib", type=int, default=0, help="managed memory that it holds")
    parser.add_argument("--fill", action="store_true", help="hold most of what is free")
    parser.add_argument("--spin-s", type=float, default=0, help="begin with a kernel that takes so long")
    parser.add_argument("--share", action="store_true", help="share memory with another process")
    parser.add_argument("--open", default="", help="the other's handle")
    return parser.parse_args()


def main() -> None:
    asked, lines, trainer = options(), Lines(), Trainer()
    trainer.hold(asked.mib)
    if asked.managed_mib:
        trainer.managed(asked.managed_mib)
    if asked.fill:
        trainer.fill()
    if asked.open:
        trainer.open(asked.open)
    say("ready")
    if asked.share:
        say(f"shared {trainer.share()}")
        lines.wait()
    if asked.spin_s:
        trainer.spin(asked.spin_s)
        say("spinning")
        lines.wait()
        trainer.wait()
    for _ in range(asked.steps):
        told = trainer.step()
        say(f"step {told.step} {told.loss.hex()}")
        time.sleep(asked.pace_ms / 1000)
    say("memory intact" if trainer.intact() else "memory damaged")
    say("done")


if __name__ == "__main__":
    main()
