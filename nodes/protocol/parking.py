"""Parking of a task: its process is taken off the GPU, its GPU memory lies in the server's, its container is paused.

``docs/decisions/parking.md`` has the states and why.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from nodes.protocol.wording import message_split

SUSPEND = "suspend"
"""The capability of a node that can do it. No other is sent a turn."""


class GpuWish(StrEnum):
    """What the portal wants of a running task's GPU."""

    HOLD = "hold"
    PARK = "park"


class GpuState(StrEnum):
    """Where a running task is between its GPU and the server's memory."""

    HELD = "held"
    PARKING = "parking"  # it still holds its GPU
    PARKED = "parked"  # it holds none
    RESUMING = "resuming"  # it holds its GPU again
    LOST = "lost"  # it can neither go on nor be put back; its end follows


class ParkFault(StrEnum):
    """What stood in the way of the newest turn."""

    UNSUPPORTED = "unsupported"  # this server can park nothing
    PROCESSES = "processes"  # more than one process, or more than one GPU
    ROOM = "room"  # too little memory of the server, or its limit cannot be raised
    BUSY = "busy"  # a kernel ran for longer than the limit
    REFUSED = "refused"  # CUDA cannot do it with what this process uses: not to be tried again
    FAILED = "failed"  # CUDA failed, and the task goes on
    LEFT_MEMORY = "left_memory"  # some of its memory stayed on the GPU; it was put back
    SILENT = "silent"  # CUDA gave no answer
    GPU_HELD = "gpu_held"  # resuming waits: another task is on its GPU
    GPU_FULL = "gpu_full"  # resuming waits: its GPU has too little free memory
    LOST = "lost"  # it could not be put back


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFault:
    """``code``: a ``ParkFault``, maybe of another release; ``message``: one sentence for people."""

    code: str
    message: str = ""
    said: dict[str, Any] = field(default_factory=dict)  # the message as data

    def __post_init__(self) -> None:
        message_split(self)
