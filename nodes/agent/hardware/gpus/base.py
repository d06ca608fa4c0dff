"""The interface to a node's GPUs.

Two backends: ``nvml`` (NVIDIA's management library) and ``simulated`` (declared GPUs, for the demo and for tests). MIG
layouts and memory limits will be methods of ``GpuBackend`` whose absence shows in the inventory's capabilities. Tasks
are taken off their GPUs by CUDA (``cuda.py``); nothing else talks to a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from nodes.protocol.messages import GpuInfo, GpuSample

PidOwner = Callable[[int], str | None]
"""The task attempt whose container a host process belongs to; None: not one of ours."""

AttemptByGpu = Callable[[], Mapping[str, str]]
"""The task attempt that runs on each GPU (by UUID) now, as the runtime has it: declared GPUs are busy by it."""


class GpusUnavailable(Exception):
    """The GPUs cannot be read at all: no driver, no library, bad declaration. Its text is one sentence."""


@dataclass(frozen=True, slots=True)
class GpuUse:
    """Memory of one GPU now, in MB; ``processes``: MB by host pid. ``mig``: it is in MIG mode."""

    used_mb: int
    free_mb: int
    processes: Mapping[int, int]
    mig: bool = False


class GpuBackend(Protocol):
    """A node's GPUs. All methods may be called from several threads and never raise for one bad GPU: it stays in the
    inventory with ``healthy=False`` and the fault in words."""

    @property
    def simulated(self) -> bool:
        """Whether the GPUs are declared, not found: containers get no device."""

    def inventory(self) -> tuple[GpuInfo, ...]:
        """All GPUs seen since the start, in index order, with their health now."""

    def sample(self, pid_owner: PidOwner) -> tuple[GpuSample, ...]:
        """One reading of every GPU, in index order; None for values that a GPU does not report."""

    def holders(self, uuid: str) -> tuple[int, ...]:
        """Host pids of the processes on this GPU now; empty when there are none, or it cannot be asked."""

    def use(self, uuid: str) -> GpuUse | None:
        """Who uses this GPU's memory now; None where it cannot be asked."""

    def close(self) -> None:
        """Releases the driver. Idempotent."""
