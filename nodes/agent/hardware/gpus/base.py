"""The one interface to a node's GPUs.

Two backends: ``nvml`` (NVIDIA's management library) and ``simulated`` (declared GPUs, for the demo and for tests).
MIG layouts, memory limits, and suspend and resume have their place in this interface when they come: each as a
method of ``GpuBackend`` whose absence the inventory's capabilities tell; nothing else talks to a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from nodes.protocol.messages import GpuInfo, GpuSample

PidOwner = Callable[[int], str | None]
"""The task attempt whose container a process (host pid) belongs to; None: nobody's of ours."""

AttemptByGpu = Callable[[], Mapping[str, str]]
"""The task attempt that runs on each GPU (by UUID) now, as the runtime has it: declared GPUs are busy by it."""


class GpusUnavailable(Exception):
    """The GPUs cannot be read at all: no driver, no library, bad declaration. ``reason`` is one sentence."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class GpuBackend(Protocol):
    """What a node knows of its GPUs. All methods may be called from several threads and never raise for one bad
    GPU: it stays in the inventory with ``healthy=False`` and the fault in words."""

    @property
    def simulated(self) -> bool:
        """True when the GPUs are declared, not found: containers get no device."""
        ...

    def inventory(self) -> tuple[GpuInfo, ...]:
        """Every GPU that was seen since the start, in index order, with its health now."""
        ...

    def sample(self, pid_owner: PidOwner) -> tuple[GpuSample, ...]:
        """One reading of every GPU, in index order; None where a GPU does not tell."""
        ...

    def holders(self, uuid: str) -> tuple[int, ...]:
        """Host pids of the processes that hold this GPU now; empty when none, or when it cannot be asked."""
        ...

    def close(self) -> None:
        """Lets the driver go. Idempotent."""
        ...
