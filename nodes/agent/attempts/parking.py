"""Parking of one task: off its GPU into the server's memory, and back; ``docs/decisions/parking.md`` has the table.

Each look goes on from the recorded step. Before a call of CUDA its state is asked, unless an answer told it just now:
so any step may be repeated, and the agent may die between any two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import structlog

from nodes.agent.attempts.context import RETRY_EVERY_S, AttemptContext
from nodes.agent.attempts.journal import Record, Stopping
from nodes.agent.attempts.park_calls import CudaSilent, NotYet, ProcessCalls
from nodes.agent.attempts.park_checks import SPARE_MB, CannotPark, ParkChecks, process_began
from nodes.agent.attempts.park_record import Parking, Step
from nodes.agent.hardware.gpus.cuda import Answer, Code, CudaCall, CudaState
from nodes.agent.hardware.gpus.suspension import MARGIN_MB
from nodes.agent.runtimes.base import Freezer, LimitRefused, RuntimeContainer
from nodes.protocol import wordings
from nodes.protocol.messages import Order
from nodes.protocol.parking import GpuFault, GpuWish, ParkFault
from nodes.protocol.states import Cause
from nodes.protocol.wording import Sentence

log = structlog.get_logger(__name__)

SLOWEST_MB_S = 250
"""Where it was measured, a GPU's memory moves at least six times as fast."""
PROVED_WITHIN_S, CONFIRMED_WITHIN_S, LOWERED_WITHIN_S = 5.0, 10.0, 60.0
KILL_LIMIT_S = 10
"""How long the kernels of a task are waited for that is to be killed."""
_LOOK_S = 0.1
_TRIES = 3


class ParkingSteps:
    """Drives one task's parking, by that task's thread alone. ``save`` takes the record; ``wake`` makes the next look
    come at once."""

    def __init__(self, context: AttemptContext, save: Callable[[Record], None], wake: Callable[[], None]) -> None:
        self._context, self._save_record = context, save
        self._now = context.clock.monotonic
        self._checks = ParkChecks(context)
        self._calls = ProcessCalls(self._now, wake)
        self._table: dict[Step, Callable[[], Step | None]] = {
            Step.RAISE: self._raise,
            Step.LOCK: self._lock,
            Step.CHECKPOINT: self._checkpoint,
            Step.PROVE: self._prove,
            Step.PAUSE: self._pause,
            Step.PARKED: self._parked,
            Step.UNPAUSE: self._unpause,
            Step.RESTORE: self._restore,
            Step.UNLOCK: self._unlock,
            Step.CONFIRM: self._confirm,
            Step.LOST: self._lost,
            Step.HELD: self._held,
        }

    def take(self, record: Record, order: Order) -> None:
        """Records what the order wants of the GPU, unless a newer turn is known."""
        if order.turn > record.parking.turn:
            parking = replace(record.parking, turn=order.turn, wanted=order.gpu, limit_s=order.park_limit_s, fault=None)
            self._save_record(replace(record, parking=parking))

    def look(self, record: Record, found: RuntimeContainer) -> float | None:
        """Does what is next with a running container. Seconds until the next look; None where nothing is under way.
        With a recorded stop it comes to rest: on the GPU, or parked. Raises RuntimeUnavailable."""
        self._record, self._found = record, found
        if (freezer := self._context.runtime.freezer()) is not None:
            self._freezer: Freezer = freezer
        try:
            while (step := self._table[self._parking.step]()) is not None:
                if step is not self._parking.step:
                    self._save(step=step, since=self._now(), tries=0)
        except NotYet as waits:
            return waits.seconds
        except CudaSilent:
            self._save(fault=_fault(ParkFault.SILENT, wordings.PARK_SILENT(call=CudaCall.STATE.function)))
            return RETRY_EVERY_S
        return None

    def before_kill(self, record: Record, found: RuntimeContainer) -> bool:
        """Whether the container has to wait for its SIGKILL: one that was put back on its GPU is parked first, once."""
        parking = record.parking
        if not parking.restored or parking.last or parking.step is not Step.HELD:
            return False
        self._record, self._found = record, found
        try:
            with self._context.claims:
                planned = self._checks.planned(record, found)
                planned = replace(planned, last=True, limit_s=KILL_LIMIT_S, since=self._now(), tries=0)
                self._save_parking(planned if planned.pid is not None else replace(parking, last=True))
        except CannotPark:
            self._save(last=True)
        return self._parking.step is not Step.HELD

    # ------------------------------------------------------------ what is recorded, what is wanted

    @property
    def _parking(self) -> Parking:
        return self._record.parking

    def _save(self, **changes: Any) -> None:
        self._save_parking(replace(self._parking, **changes))

    def _save_parking(self, parking: Parking) -> None:
        record = replace(self._record, parking=parking)
        self._save_record(record)
        self._record = record

    def _leaves(self) -> bool:
        """Whether the way goes off the GPU."""
        if self._record.stopping is not None:
            return self._parking.last
        return self._parking.wanted is GpuWish.PARK

    def _gives_up(self, code: ParkFault, why: Sentence, step: Step = Step.UNLOCK) -> Step:
        log.warning("a task was not parked", attempt=self._record.attempt, reason=str(why))
        self._save(fault=_fault(code, why))
        return step

    # ------------------------------------------------------------ CUDA

    def _state(self) -> CudaState | None:
        """None where the process is gone, or has CUDA no more."""
        pid = self._parking.pid
        if pid is None or process_began(pid) != self._parking.began:
            self._calls.forget()
            return None
        return self._calls.state(pid)

    def _call(self, call: CudaCall, limit_s: float = 0.0) -> Answer:
        assert self._parking.pid is not None
        return self._calls.make(call, self._parking.pid, limit_s)

    def _again(self, call: CudaCall, answer: Answer) -> bool:
        """Whether the state has to be asked, for another one was there than thought, or nobody answered."""
        if answer.code is None:
            self._save(tries=self._parking.tries + 1)
            log.warning("CUDA gave no answer", attempt=self._record.attempt, call=call.function)
        if answer.code in (None, Code.ILLEGAL_STATE):
            self._calls.forget()
            return True
        return False

    def _slowest_s(self) -> float:
        return self._parking.used_mb / SLOWEST_MB_S

    # ------------------------------------------------------------ off the GPU

    def _held(self) -> Step | None:
        parking = self._parking
        if parking.limit_mb is not None:
            self._lower(parking.limit_mb)
        if not self._leaves() or self._record.stopping is not None or parking.tried == parking.turn:
            return None
        try:
            with self._context.claims:
                planned = self._checks.planned(self._record, self._found)
                self._save_parking(replace(planned, tried=parking.turn, since=self._now(), tries=0))
        except CannotPark as cannot:
            self._save(tried=parking.turn, fault=cannot.fault)
        return self._parking.step

    def _lower(self, limit_mb: int) -> None:
        """The container's memory limit as it was, once its processes hold less. They have a minute for it: it was not
        raised for them."""
        self._freezer.release(self._record.attempt)
        late = self._now() - self._parking.since > LOWERED_WITHIN_S
        try:
            if limit_mb:
                self._freezer.set_memory(self._record.attempt, limit_mb, although_more=late)
            self._save(limit_mb=None)
        except LimitRefused as refused:
            log.debug("a memory limit stays raised", attempt=self._record.attempt, reason=str(refused))

    def _raise(self) -> Step:
        if not self._leaves():
            return Step.HELD
        self._freezer.thaw(self._record.attempt)
        try:
            if limit_mb := self._parking.limit_mb:
                self._freezer.set_memory(self._record.attempt, limit_mb + self._parking.used_mb + SPARE_MB)
        except LimitRefused as refused:
            return self._gives_up(ParkFault.ROOM, wordings.PARK_LIMIT(why=str(refused)), Step.HELD)
        return Step.LOCK

    def _lock(self) -> Step:
        limit_s = max(1.0, self._parking.limit_s / 2)
        if not self._calls.is_made(CudaCall.LOCK):
            state = self._state()
            if state is None:
                return self._gone()
            if state is not CudaState.RUNNING:
                return Step.CHECKPOINT
            if not self._leaves():
                return Step.UNLOCK
            self._save(locks_end=self._now() + limit_s + 1)
        answer = self._call(CudaCall.LOCK, limit_s)
        if answer.code is not None:
            self._save(locks_end=0.0)
        return Step.CHECKPOINT if answer.code == Code.DONE else self._not_locked(answer, limit_s)

    def _not_locked(self, answer: Answer, limit_s: float) -> Step:
        if answer.code == Code.ILLEGAL_STATE:
            self._calls.forget()
            return Step.LOCK
        if answer.code in (Code.NOT_INITIALIZED, Code.INVALID_VALUE):
            return self._gone()
        if answer.code != Code.NOT_READY:
            return self._failed(CudaCall.LOCK, answer)
        self._save(tries=self._parking.tries + 1)
        if self._parking.tries < 2 and self._leaves():
            return Step.LOCK
        return self._gives_up(ParkFault.BUSY, wordings.PARK_BUSY(seconds=round(2 * limit_s)))

    def _checkpoint(self) -> Step:
        if not self._calls.is_made(CudaCall.CHECKPOINT):
            state = self._state()
            if state is None:
                return self._gone()
            if state is CudaState.CHECKPOINTED:
                return Step.PROVE
            if state is CudaState.RUNNING and self._leaves():
                return Step.LOCK
            if state is not CudaState.LOCKED or not self._leaves():
                return Step.UNLOCK
        answer = self._call(CudaCall.CHECKPOINT, self._slowest_s())
        if answer.code == Code.DONE:
            return Step.PROVE
        if answer.code == Code.ILLEGAL_STATE:
            self._calls.forget()
            return Step.CHECKPOINT
        if answer.code == Code.NOT_INITIALIZED:
            return self._gone()
        if answer.code == Code.NOT_SUPPORTED:
            why = wordings.PARK_REFUSED(call=CudaCall.CHECKPOINT.function, code=answer.code)
            return self._gives_up(ParkFault.REFUSED, why)
        return self._failed(CudaCall.CHECKPOINT, answer)

    def _failed(self, call: CudaCall, answer: Answer) -> Step:
        if answer.code is None:
            self._calls.forget()
            return self._gives_up(ParkFault.SILENT, wordings.PARK_SILENT(call=call.function))
        if answer.code in (Code.NOT_SUPPORTED, Code.NOT_FOUND):
            self._context.suspension.switch_off(call.function, answer.code)
            why = wordings.PARK_CALLS(call=call.function, code=answer.code)
            return self._gives_up(ParkFault.UNSUPPORTED, why)
        return self._gives_up(ParkFault.FAILED, wordings.PARK_FAILED(call=call.function, code=answer.code))

    def _gone(self) -> Step:
        """Its process has no CUDA any more, so what it has on its GPU is looked at anew."""
        self._calls.forget()
        if self._record.stopping is None and self._leaves():
            self._save(tried=self._parking.turn - 1, step=Step.HELD)
            raise NotYet(RETRY_EVERY_S)
        return Step.HELD

    def _prove(self) -> Step:
        off = self._parking.pid is not None
        if not self._leaves() or self._parking.last:
            return Step.PARKED if off else Step.HELD
        left = self._checks.left(self._record)
        if left is None:
            return Step.PAUSE
        if self._now() - self._parking.since < PROVED_WITHIN_S:
            raise NotYet(_LOOK_S)
        why = wordings.PARK_LEFT(pids=[str(pid) for pid in left])
        return self._gives_up(ParkFault.LEFT_MEMORY, why, Step.UNPAUSE if off else Step.HELD)

    def _pause(self) -> Step:
        self._freezer.freeze(self._record.attempt)
        self._save(fault=None)
        return Step.PARKED

    # ------------------------------------------------------------ back to the GPU

    def _parked(self) -> Step | None:
        if self._record.stopping is not None:
            return None if self._parking.pid is not None else self._go_on()
        if self._leaves():
            if not self._found.paused:
                self._freezer.freeze(self._record.attempt)
            return None
        with self._context.claims:
            other = self._context.gpu_conflict(self._record.attempt, self._record.gpus)
            if other is None:
                self._save(step=Step.UNPAUSE, fault=None)
                return Step.UNPAUSE
        self._save(fault=_fault(ParkFault.GPU_HELD, wordings.PARK_GPU_HELD(other=other)))
        raise NotYet(RETRY_EVERY_S)

    def _go_on(self) -> Step:
        self._freezer.thaw(self._record.attempt)
        return Step.HELD

    def _turns_back(self) -> bool:
        """Whether the way was to the GPU, and is not any more: what failed to be parked goes there in any case."""
        stops = self._record.stopping is not None
        return stops or (self._leaves() and self._parking.tried != self._parking.turn)

    def _unpause(self) -> Step:
        if self._turns_back():
            self._save(tried=self._parking.turn)
            return Step.PROVE if self._record.stopping is None else Step.PARKED
        if self._parking.pid is None:
            return self._go_on()
        self._wait_for_room()
        self._freezer.thaw(self._record.attempt)
        self._save(restored=True)
        return Step.RESTORE

    def _wait_for_room(self) -> None:
        """A restore that finds too little room loses the task for good: it is never tried to see."""
        missing = self._checks.missing(self._record)
        if missing is not None:
            self._save(fault=missing)
            raise NotYet(RETRY_EVERY_S)

    def _restore(self) -> Step:
        if not self._calls.is_made(CudaCall.RESTORE):
            state = self._state()
            if state in (CudaState.LOCKED, CudaState.RUNNING, None):
                return Step.UNLOCK
            if state is CudaState.FAILED:
                return self._loses(Answer(Code.DONE, state))
            if self._turns_back():
                return Step.UNPAUSE
            if self._found.paused:
                self._freezer.thaw(self._record.attempt)
            self._wait_for_room()
        answer = self._call(CudaCall.RESTORE, self._slowest_s())
        if answer.code in (Code.DONE, Code.NOT_INITIALIZED):
            return Step.UNLOCK
        if self._again(CudaCall.RESTORE, answer) and self._parking.tries < _TRIES:
            return Step.RESTORE
        if answer.code == Code.OUT_OF_MEMORY:
            self._context.suspension.margin_mb += MARGIN_MB
        return self._loses(answer)

    def _loses(self, answer: Answer) -> Step:
        code = "nothing" if answer.code is None else answer.code or f"state {answer.state}"
        why = wordings.PARK_LOST(call=CudaCall.RESTORE.function, code=code)
        return self._gives_up(ParkFault.LOST, why, Step.LOST)

    def _unlock(self) -> Step:
        state = CudaState.LOCKED if self._calls.is_made(CudaCall.UNLOCK) else self._state()
        if state is None:
            return Step.CONFIRM
        if state is CudaState.FAILED:
            return self._loses(Answer(Code.DONE, state))
        if state is CudaState.CHECKPOINTED:  # by a call whose answer was lost
            return Step.PROVE if self._leaves() else Step.RESTORE
        if state is CudaState.RUNNING:
            if (left := self._parking.locks_end - self._now()) > 0:
                self._calls.forget()
                raise NotYet(min(left, RETRY_EVERY_S))
            return Step.CONFIRM
        answer = self._call(CudaCall.UNLOCK)
        if answer.code == Code.DONE:
            return Step.CONFIRM
        if not self._again(CudaCall.UNLOCK, answer):
            self._calls.forget()
        raise NotYet(RETRY_EVERY_S)

    def _confirm(self) -> Step:
        parking = self._parking
        if self._record.stopping is not None or self._state() is None:
            return Step.HELD
        failed = parking.fault is not None and parking.wanted is GpuWish.PARK
        waited = self._now() - parking.since >= CONFIRMED_WITHIN_S
        if not waited and (failed or not self._checks.runs(self._record)):
            raise NotYet(_LOOK_S)
        if not failed:
            self._save(fault=None)
        return Step.HELD

    def _lost(self) -> None:
        """It is killed as it is."""
        if self._record.stopping is not None:
            return
        fault = self._parking.fault or _fault(ParkFault.LOST, wordings.PARK_BROKE())
        stopping = Stopping(
            reason=None,
            cause=Cause.DEVICE_FAULT,
            message=fault.message,
            said=fault.said,
            grace_s=0,
            asked_ms=self._context.clock.now_ms(),
        )
        self._save_record(replace(self._record, stopping=stopping))
        raise NotYet(0.0)


def _fault(code: ParkFault, why: Sentence) -> GpuFault:
    return GpuFault(code=code, message=why)
