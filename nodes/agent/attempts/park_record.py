"""What the journal keeps of a task's parking: the newest turn, and the step that was begun."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nodes.protocol.parking import GpuFault, GpuState, GpuWish


class Step(StrEnum):
    """A step of parking or resuming. Each is recorded before it is done, and may be repeated."""

    HELD = "held"
    # towards memory
    RAISE = "raise"  # the container's memory limit
    LOCK = "lock"
    CHECKPOINT = "checkpoint"
    PROVE = "prove"  # that the GPU is free
    PAUSE = "pause"
    PARKED = "parked"
    # back to the GPU, also after a step of the above has failed
    UNPAUSE = "unpause"
    RESTORE = "restore"
    UNLOCK = "unlock"
    CONFIRM = "confirm"  # that it runs
    LOST = "lost"


GPU_STATES = {
    Step.HELD: GpuState.HELD,
    **dict.fromkeys((Step.RAISE, Step.LOCK, Step.CHECKPOINT, Step.PROVE, Step.PAUSE), GpuState.PARKING),
    Step.PARKED: GpuState.PARKED,
    **dict.fromkeys((Step.UNPAUSE, Step.RESTORE, Step.UNLOCK, Step.CONFIRM), GpuState.RESUMING),
    Step.LOST: GpuState.LOST,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parking:
    """``turn``, ``wanted``, ``limit_s``: of the newest order. ``tried``: the turn in which it was last tried to park
    it. Times are this machine's monotonic seconds, memory is MB."""

    turn: int = 0
    wanted: GpuWish = GpuWish.HOLD
    limit_s: int = 0
    tried: int = 0
    step: Step = Step.HELD
    since: float = 0.0  # when the step began
    pid: int | None = None  # of the process on the GPU, on the host; None: there was none
    began: float = 0.0  # when that process did, unix s
    used_mb: int = 0  # what it held on the GPU
    gpu_used_mb: int = 0  # what all held there
    limit_mb: int | None = None  # the container's memory limit before it was raised
    locks_end: float = 0.0  # when the last call that may lock it has come to its end
    tries: int = 0  # of a call that gave no answer, or none yet
    restored: bool = False  # it was put back once: it is parked before it is killed
    last: bool = False  # it is parked to be killed
    fault: GpuFault | None = None

    @property
    def state(self) -> GpuState:
        return GPU_STATES[self.step]

    @property
    def is_off(self) -> bool:
        """Whether it stands still by CUDA: a handler of SIGTERM would wait for its GPU."""
        return self.step in (Step.PARKED, Step.LOST) and self.pid is not None

    @property
    def parked_mb(self) -> int:
        """Of its GPU memory in the server's, or on the way there."""
        return 0 if self.step is Step.HELD else self.used_mb
