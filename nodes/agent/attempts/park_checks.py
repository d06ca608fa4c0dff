"""Whether a task can be parked now, whether its GPU is free afterwards, and whether it has room to come back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import psutil

from nodes.agent.attempts.context import AttemptContext
from nodes.agent.attempts.journal import Record
from nodes.agent.attempts.park_record import Parking, Step
from nodes.agent.runtimes.base import RuntimeContainer
from nodes.protocol import wordings
from nodes.protocol.parking import GpuFault, ParkFault
from nodes.protocol.wording import Sentence

SPARE_MB = 512
"""Memory of the server beyond what was on the GPU."""
_FREED = 0.9


class CannotPark(Exception):
    """The task stays on its GPU; ``fault`` says why."""

    def __init__(self, fault: GpuFault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class ParkChecks:
    """Questions to the GPU's driver and to the server. They change nothing."""

    def __init__(self, context: AttemptContext) -> None:
        self._context = context

    def planned(self, record: Record, found: RuntimeContainer) -> Parking:
        """The record of parking at its first step, with what the task has on its GPU. Raises CannotPark."""
        parking = record.parking
        if (fault := self._context.suspension.fault(fresh=True)) is not None:
            raise CannotPark(fault)
        if len(record.gpus) != 1:
            raise _cannot(ParkFault.PROCESSES, wordings.PARK_GPUS(count=len(record.gpus)))
        use = self._context.gpu_use(record.gpus[0])
        if use is None:
            raise _cannot(ParkFault.UNSUPPORTED, wordings.PARK_UNREAD())
        if use.mig:
            raise _cannot(ParkFault.UNSUPPORTED, wordings.PARK_MIG())
        pids = self._own(record, use.processes)
        if len(pids) > 1:
            raise _cannot(ParkFault.PROCESSES, wordings.PARK_PROCESSES(count=len(pids)))
        pid = pids[0] if pids else None
        used_mb = use.processes[pid] if pid is not None else 0
        self._check_memory(record, used_mb)
        limit_mb = found.memory_mb if parking.limit_mb is None else parking.limit_mb
        return replace(
            parking,
            step=Step.RAISE if pid is not None else Step.PROVE,
            pid=pid,
            began=0.0 if pid is None else process_began(pid),
            used_mb=used_mb,
            gpu_used_mb=use.used_mb,
            limit_mb=limit_mb,
        )

    def left(self, record: Record) -> list[int] | None:
        """The task's processes that its GPU still has, and whoever keeps what was not freed; None: nothing is left."""
        use = self._context.gpu_use(record.gpus[0])
        if use is None:
            return []
        parking = record.parking
        if parking.pid is None:  # somebody else may hold memory for it, as the server of MPS does
            return sorted(use.processes) or None
        freed = parking.gpu_used_mb - use.used_mb
        pids = self._own(record, use.processes)
        return None if not pids and freed >= _FREED * parking.used_mb else pids or sorted(use.processes)

    def runs(self, record: Record) -> bool:
        """Whether its process is on its GPU."""
        use = self._context.gpu_use(record.gpus[0])
        return use is not None and record.parking.pid in use.processes

    def missing(self, record: Record) -> GpuFault | None:
        """Why its GPU has no room for it."""
        use = self._context.gpu_use(record.gpus[0])
        wanted = record.parking.used_mb + self._context.suspension.margin_mb
        if use is None:
            return GpuFault(code=ParkFault.GPU_FULL, message=wordings.PARK_UNREAD())
        if use.free_mb < wanted:
            return GpuFault(code=ParkFault.GPU_FULL, message=wordings.PARK_GPU_FULL(free=use.free_mb, mb=wanted))
        return None

    def _check_memory(self, record: Record, used_mb: int) -> None:
        free = min(self._context.park_room_mb(record.attempt), psutil.virtual_memory().available >> 20)
        if used_mb and used_mb + SPARE_MB > free:
            raise _cannot(ParkFault.ROOM, wordings.PARK_ROOM(mb=used_mb, free=free))

    def _own(self, record: Record, pids: Iterable[int]) -> list[int]:
        return sorted(pid for pid in pids if self._context.runtime.belongs(pid, record.container))


def _cannot(code: ParkFault, why: Sentence) -> CannotPark:
    return CannotPark(GpuFault(code=code, message=why))


def process_began(pid: int) -> float:
    """When a process began, unix s; 0 where it is gone. A number may be another's later, this moment never."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return 0.0
