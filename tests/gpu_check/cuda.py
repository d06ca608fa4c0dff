"""CUDA's driver library, without a toolkit: calls by name."""

from __future__ import annotations

import ctypes
from typing import Any


class CudaError(Exception):
    """A call's answer that is not success."""

    def __init__(self, call: str, answer: str) -> None:
        super().__init__(f"{call} answered {answer}")


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
