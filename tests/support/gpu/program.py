"""A program that uses CUDA, as a process of its own that makes the calls it is told: a JSON line for each call, and one
for its answer. Functions are found by name and version, as programs find them."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.gpu.machine import Machine

HANDLE, INT, FLOAT = "out:handle", "out:int", "out:float"
"""What a call writes where this stands among its arguments; it is returned."""

KERNELS = """gpu-machine kernels
spin spin 0 80 40 0 20
step descend 1000000 90 45 60 35
"""

SERVER = """
import ctypes, json, sys
library = ctypes.CDLL("libcuda.so.1")
KINDS = {"handle": ctypes.c_uint64, "int": ctypes.c_int, "float": ctypes.c_float}
for line in sys.stdin:
    name, version, arguments = json.loads(line)
    outs, given = [], []
    found = ctypes.c_void_p()
    answer = library.cuGetProcAddress_v2(name.encode(), ctypes.byref(found), version, ctypes.c_uint64(0), None)
    if not answer:
        for one in arguments:
            if isinstance(one, str) and one.startswith("out:"):
                outs.append(KINDS[one[4:]]())
                given.append(ctypes.byref(outs[-1]))
            elif isinstance(one, str):
                given.append(ctypes.c_char_p(one.encode("latin-1")))
            elif isinstance(one, list):
                cells = [ctypes.c_uint64(value) for value in one]
                given.append((ctypes.c_void_p * max(1, len(cells)))(*map(ctypes.addressof, cells)))
            else:
                given.append(ctypes.c_uint64(one) if one is not None else None)
        answer = ctypes.CFUNCTYPE(ctypes.c_int)(found.value)(*given)
    print(json.dumps([answer, [out.value for out in outs]]), flush=True)
"""


NOTHING: Mapping[str, str] = {}


class CudaError(Exception):
    """A call's answer that is not success."""

    def __init__(self, call: str, code: int) -> None:
        super().__init__(f"{call}: {code}")
        self.code = code


class Program:
    """``program("cuMemAlloc", HANDLE, bytes)`` makes the call and returns what it wrote. A list is a kernel's
    parameters. Raises CudaError."""

    def __init__(self, machine: Machine, env: Mapping[str, str] = NOTHING, *, version: int = 13000) -> None:
        self._version = version
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-c", SERVER],
            env={**machine.env, **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid

    def __call__(self, call: str, *arguments: Any) -> Any:
        self.begin(call, *arguments)
        return self.answer(call)

    def begin(self, call: str, *arguments: Any) -> None:
        """The call, whose answer comes later."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([call, self._version, arguments]) + "\n")
        self._process.stdin.flush()

    def answer(self, call: str = "the call") -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"{call} ended the program: {self._process.wait()}"
        code, wrote = json.loads(line)
        if code:
            raise CudaError(call, code)
        return wrote[0] if len(wrote) == 1 else tuple(wrote)

    def answered(self) -> bool:
        """Whether the answer to what was begun has come."""
        return bool(select.select([self._process.stdout or 0], [], [], 0)[0])

    def code(self, call: str, *arguments: Any) -> int:
        """What the call answers."""
        try:
            self(call, *arguments)
        except CudaError as error:
            return error.code
        return 0

    def opened(self, device: int = 0) -> Program:
        """With a context on this GPU, and the test's kernels."""
        self("cuInit", 0)
        self("cuCtxSetCurrent", self("cuDevicePrimaryCtxRetain", HANDLE, device))
        module = self("cuModuleLoadData", HANDLE, KERNELS)
        self.kernels = {name: self("cuModuleGetFunction", HANDLE, module, name) for name in ("spin", "step")}
        return self

    def spin(self, seconds: float, stream: int = 0) -> None:
        """A kernel of this length."""
        self.launch("spin", [round(seconds * 1e9)], stream)

    def launch(self, kernel: str, parameters: Sequence[int], stream: int = 0) -> None:
        self("cuLaunchKernel", self.kernels[kernel], 1, 1, 1, 32, 1, 1, 0, stream, list(parameters), None)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def trainer(machine: Machine, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The program that stands for a training; its lines are `step N loss X`. It ends with the block."""
    path = Path(machine.env["LD_LIBRARY_PATH"]) / "trainer"
    with subprocess.Popen(
        [path, *arguments], env=machine.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def trained(machine: Machine, *arguments: str) -> str:
    """What it printed, from its start to its end."""
    with trainer(machine, *arguments) as process:
        return process.communicate()[0]
