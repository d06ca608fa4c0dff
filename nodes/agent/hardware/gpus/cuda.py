"""CUDA's checkpoint calls as the agent makes them: each in a child of its own (``checkpoint.py``), answered later."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from pathlib import Path

_CHILD = Path(__file__).with_name("checkpoint.py")


class CudaCall(StrEnum):
    """The child's calls."""

    PROBE = "probe"
    STATE = "state"
    LOCK = "lock"
    CHECKPOINT = "checkpoint"
    RESTORE = "restore"
    UNLOCK = "unlock"

    @property
    def function(self) -> str:
        """CUDA's name for it, where it is of a process."""
        return f"cuCheckpointProcess{'GetState' if self is CudaCall.STATE else self.capitalize()}"


class CudaState(IntEnum):
    """``CUprocessState``."""

    RUNNING = 0
    LOCKED = 1
    CHECKPOINTED = 2
    FAILED = 3
    CHECKPOINTING = 4  # from CUDA 13.5 on
    RESTORING = 5


class Code(IntEnum):
    """``CUresult``, as far as it is told apart."""

    DONE = 0
    INVALID_VALUE = 1
    OUT_OF_MEMORY = 2
    NOT_INITIALIZED = 3
    ILLEGAL_STATE = 401
    NOT_FOUND = 500
    NOT_READY = 600
    NOT_SUPPORTED = 801


@dataclass(frozen=True, slots=True)
class Answer:
    """``code``: CUDA's, None of a child that died; ``state``: of the process afterwards, None where it has none;
    ``missing``: why there is no library."""

    code: int | None
    state: CudaState | None = None
    missing: str = ""


DIED = Answer(None)


class PendingCall:
    """A call that was begun. A thread waits for its child and then calls ``done``, which must not block. The child of
    an agent that is killed makes its one call and ends."""

    def __init__(self, call: CudaCall, pid: int, *, limit_s: float = 0, done: Callable[[], None]) -> None:
        self.call = call
        self.answer: Answer | None = None
        self._done = done
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_CHILD), call, str(pid), str(round(limit_s * 1000))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        threading.Thread(target=self._wait, name=f"cuda-{call}", daemon=True).start()

    def kill(self) -> None:
        """Gives it up: one that the driver holds may stay, and nobody waits for it."""
        self._process.kill()

    def _wait(self) -> None:
        output, _ = self._process.communicate()
        self.answer = _read(output) if self._process.returncode == 0 else DIED
        self._done()


def cuda_probe(timeout_s: float) -> Answer:
    """Whether the library is there and has all calls."""
    ended = threading.Event()
    pending = PendingCall(CudaCall.PROBE, 0, done=ended.set)
    if not ended.wait(timeout_s):
        pending.kill()
    return pending.answer or DIED


def _read(output: bytes) -> Answer:
    try:
        told = json.loads(output)
    except ValueError:
        return DIED
    return Answer(told.get("code"), _state(told.get("state")), told.get("missing", ""))


def _state(number: int | None) -> CudaState | None:
    """A state that a later CUDA adds is none in which anything can be done."""
    if number is None:
        return None
    return CudaState(number) if number in set(CudaState) else CudaState.CHECKPOINTING
