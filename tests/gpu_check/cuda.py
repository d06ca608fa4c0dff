"""CUDA's driver library, without a toolkit: calls by name, and taking another process off its GPUs."""

from __future__ import annotations

import ctypes
from typing import Any

RUNNING, LOCKED, PARKED, LOST = range(4)
"""What `Driver.state` tells of another process (CUprocessState)."""

STATES = {RUNNING: "running", LOCKED: "locked", PARKED: "parked", LOST: "failed"}
OUT_OF_MEMORY, NOT_READY = 2, 600


class CudaError(Exception):
    """A call's answer that is not success."""

    def __init__(self, call: str, answer: str) -> None:
        super().__init__(f"{call} answered {answer}")


class _LockOptions(ctypes.Structure):
    _fields_ = (("timeout_ms", ctypes.c_uint), ("reserved", ctypes.c_uint), ("more", ctypes.c_uint64 * 7))


class Driver:
    """``driver("cuMemAlloc_v2", byref(address), c_size_t(size))`` makes the call, with arguments of ctypes. Raises
    CudaError; OSError where there is no such library."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self("cuInit", ctypes.c_uint(0))

    def __call__(self, call: str, *arguments: Any) -> None:
        answer = self.answer(call, *arguments)
        if answer:
            raise CudaError(call, self.named(answer))

    def answer(self, call: str, *arguments: Any) -> int:
        """The call's own; 0 is success."""
        return int(getattr(self._library, call)(*arguments))

    def has(self, call: str) -> bool:
        return hasattr(self._library, call)

    def named(self, answer: int) -> str:
        """Number and name of an answer, as `600 (CUDA_ERROR_NOT_READY)`."""
        name = ctypes.c_char_p()
        self._library.cuGetErrorName(ctypes.c_int(answer), ctypes.byref(name))
        return f"{answer} ({name.value.decode()})" if name.value else str(answer)

    def lock(self, pid: int, limit_ms: int) -> int:
        """The process' work on the GPU is waited for, and it starts no more. 600: it took longer than the limit."""
        options = _LockOptions(timeout_ms=limit_ms)
        return self.answer("cuCheckpointProcessLock", ctypes.c_int(pid), ctypes.byref(options))

    def checkpoint(self, pid: int) -> int:
        """What a locked process has on the GPU goes into its own memory."""
        return self.answer("cuCheckpointProcessCheckpoint", ctypes.c_int(pid), None)

    def restore(self, pid: int) -> int:
        return self.answer("cuCheckpointProcessRestore", ctypes.c_int(pid), None)

    def unlock(self, pid: int) -> int:
        return self.answer("cuCheckpointProcessUnlock", ctypes.c_int(pid), None)

    def state(self, pid: int) -> int | None:
        """One of STATES; None where there is no such process of CUDA."""
        state = ctypes.c_int(-1)
        wrong = self.answer("cuCheckpointProcessGetState", ctypes.c_int(pid), ctypes.byref(state))
        return None if wrong else state.value
