"""The agent's own calls by which a process is taken off its GPU and put back, each in a child of its own."""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

from nodes.agent.hardware.gpus.cuda import Answer, CudaCall, CudaState, PendingCall
from tests.gpu_check.failing import fail

STATES = {
    CudaState.RUNNING: "running",
    CudaState.LOCKED: "locked",
    CudaState.CHECKPOINTED: "parked",
    CudaState.FAILED: "failed",
}
RESERVE_S = 3
"""So long before its deadline a check gives a call up, to tell so."""


class Told(NamedTuple):
    """CUDA's answer, 0 for success, and the state of the process afterwards: None where it has none."""

    code: int
    state: CudaState | None


class Parker:
    """Calls on the process with a pid. ``deadline``: by time.monotonic(). Each raises Failed where no answer comes."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline

    def lock(self, pid: int, limit_s: float) -> Told:
        """The process' work on the GPU is waited for, and it starts no more. NOT_READY: it took longer than this."""
        return self._told(CudaCall.LOCK, pid, limit_s)

    def checkpoint(self, pid: int) -> Told:
        """What a locked process has on the GPU goes into its own memory."""
        return self._told(CudaCall.CHECKPOINT, pid)

    def restore(self, pid: int) -> Told:
        return self._told(CudaCall.RESTORE, pid)

    def unlock(self, pid: int) -> Told:
        return self._told(CudaCall.UNLOCK, pid)

    def state(self, pid: int) -> CudaState | None:
        return self._told(CudaCall.STATE, pid).state

    def _told(self, call: CudaCall, pid: int, limit_s: float = 0) -> Told:
        answer = self._answer(call, pid, limit_s)
        if answer.code is None:
            fail(f"the process that called {call} died")
        return Told(answer.code, answer.state)

    def _answer(self, call: CudaCall, pid: int, limit_s: float = 0) -> Answer:
        ended = threading.Event()
        pending = PendingCall(call, pid, limit_s=limit_s, done=ended.set)
        if not ended.wait(max(1, self._deadline - RESERVE_S - time.monotonic())) or pending.answer is None:
            pending.kill()
            fail(f"{call} gave no answer")
        return pending.answer


def named(state: CudaState | None) -> str:
    return "gone" if state is None else STATES.get(state, state.name.lower())
