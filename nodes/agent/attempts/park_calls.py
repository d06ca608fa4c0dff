"""CUDA's calls on one task's process, one after the other: what was asked, until when, and what is known."""

from __future__ import annotations

from collections.abc import Callable

from nodes.agent.hardware.gpus.cuda import DIED, Answer, CudaCall, CudaState, PendingCall

SILENT_AFTER_S = 30.0
"""How long a call may take beyond its own limit."""
_POLL_S = 5.0
_MOVING_S = 0.5
_MOVING_STATES = (CudaState.CHECKPOINTING, CudaState.RESTORING)


class NotYet(Exception):
    """Nothing more can be done for some seconds, unless a call is answered before."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"for {seconds} s")
        self.seconds = seconds


class CudaSilent(Exception):
    """The state of the process cannot be asked now."""


class ProcessCalls:
    """At most one call at a time. ``wake`` is called from another thread when it is answered."""

    def __init__(self, monotonic: Callable[[], float], wake: Callable[[], None]) -> None:
        self._monotonic, self._wake = monotonic, wake
        self._pending: PendingCall | None = None
        self._deadline = 0.0
        self._known: tuple[CudaState | None] | None = None

    def is_made(self, call: CudaCall) -> bool:
        """Whether this call is under way."""
        return self._pending is not None and self._pending.call is call

    def state(self, pid: int) -> CudaState | None:
        """The state of the process, asked unless the newest answer told it; None where CUDA knows no such process.
        Raises NotYet, CudaSilent."""
        if self._known is None and self.make(CudaCall.STATE, pid).code is None:
            raise CudaSilent
        assert self._known is not None
        if self._known[0] in _MOVING_STATES:
            self.forget()
            raise NotYet(_MOVING_S)
        return self._known[0]

    def make(self, call: CudaCall, pid: int, limit_s: float = 0.0) -> Answer:
        """Makes the call, or goes on waiting for it. Raises NotYet while it is under way. A child that dies, or is
        silent for too long, answers nothing."""
        if self._pending is None:
            self._pending = PendingCall(call, pid, limit_s=limit_s, done=self._wake)
            self._deadline = self._monotonic() + limit_s + SILENT_AFTER_S
        pending = self._pending
        answer, left = pending.answer, self._deadline - self._monotonic()
        if answer is None and left > 0:
            raise NotYet(min(left, _POLL_S))
        if answer is None:
            pending.kill()
        self._pending, answer = None, answer or DIED
        self._known = None if answer.code is None else (answer.state,)
        return answer

    def forget(self) -> None:
        """Asks for the state anew at the next call."""
        self._known = None
