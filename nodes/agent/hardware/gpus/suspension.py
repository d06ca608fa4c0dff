"""Whether tasks can be taken off this server's GPUs, and how much memory there is for them."""

from __future__ import annotations

import os
import platform
import threading
import time
from pathlib import Path

import psutil
import structlog

from nodes.agent.hardware.gpus.base import GpuBackend
from nodes.agent.hardware.gpus.cuda import Code, cuda_probe
from nodes.agent.runtimes.base import Runtime
from nodes.protocol import wordings
from nodes.protocol.parking import GpuFault, ParkFault
from nodes.protocol.wording import Sentence

DRIVER = 580
"""From 575.57 on the driver can do it in a container that has some of the GPUs; 580 is what was measured."""
MARGIN_MB = 1024
"""Free memory of a GPU beyond what comes back to it: a restore that finds too little loses the task."""
_PROBE_S = 20.0
_LOOK_EVERY_S = 60.0
_MPS = "nvidia-cuda-mps"
"""Its control daemon and servers, whose names the kernel cuts to 15 characters."""

log = structlog.get_logger(__name__)


class Suspension:
    """The server's ability to park. ``allowed_mb``: of its memory at most, None: half. ``margin_mb`` grows when a GPU
    was fuller than it said."""

    def __init__(self, gpus: GpuBackend, runtime: Runtime, allowed_mb: int | None) -> None:
        self._gpus, self._runtime, self._allowed_mb = gpus, runtime, allowed_mb
        self._lock = threading.Lock()
        self._driver = ""
        self._found: tuple[str, Sentence | None] | None = None  # by driver
        self._told: Sentence | None = None
        self._looked_at = float("-inf")
        self._processes: Sentence | None = None
        self.margin_mb = MARGIN_MB

    def fault(self, *, fresh: bool = False) -> GpuFault | None:
        """Why nothing can be parked here; None where it can. ``fresh``: the server's driver and processes are looked
        at anew."""
        with self._lock:
            if fresh or time.monotonic() - self._looked_at >= _LOOK_EVERY_S:
                self._looked_at, self._processes = time.monotonic(), self._of_processes()
                self._driver = next((gpu.driver for gpu in self._gpus.inventory()), "")
        why = self._why()
        if why is not None and why != self._told:
            log.info("tasks cannot be parked here", reason=str(why))
        self._told = why
        return None if why is None else GpuFault(code=ParkFault.UNSUPPORTED, message=why)

    def switch_off(self, call: str, code: int) -> None:
        """CUDA has said that it cannot: so until its driver changes."""
        with self._lock:
            self._found = (self._driver, wordings.PARK_CALLS(call=call, code=code))

    def room_mb(self, promised_mb: int) -> int:
        """Memory for parked tasks in all, of which the containers of ``promised_mb`` leave as much."""
        total = psutil.virtual_memory().total >> 20
        most = total // 2 if self._allowed_mb is None else min(self._allowed_mb, total)
        return max(0, min(most, total - promised_mb))

    def _why(self) -> Sentence | None:
        if self._allowed_mb == 0:
            return wordings.PARK_OFF()
        if self._runtime.freezer() is None:
            return wordings.PARK_RUNTIME()
        if self._gpus.simulated:
            return wordings.PARK_SIMULATED()
        if platform.machine() != "x86_64":
            return wordings.PARK_PROCESSOR(processor=platform.machine())
        if os.geteuid() != 0:
            return wordings.PARK_ROOT()
        driver = self._driver
        if not driver.partition(".")[0].isdigit() or int(driver.partition(".")[0]) < DRIVER:
            return wordings.PARK_DRIVER(driver=driver or "none")
        with self._lock:
            if self._processes is not None:
                return self._processes
            if self._found is None or self._found[0] != driver:
                self._found = (driver, _probed())
            return self._found[1]

    def _of_processes(self) -> Sentence | None:
        freezer = self._runtime.freezer()
        if freezer is not None and not freezer.sees_processes():
            return wordings.PARK_PIDS()
        return wordings.PARK_MPS() if _mps_runs() else None


def _probed() -> Sentence | None:
    answer = cuda_probe(_PROBE_S)
    if answer.missing:
        return wordings.PARK_LIBRARY(why=answer.missing)
    if answer.code is None:
        return wordings.PARK_SILENT(call="cuInit")
    return None if answer.code == Code.DONE else wordings.PARK_CALLS(call="cuInit", code=answer.code)


def _mps_runs() -> bool:
    for name in Path("/proc").glob("[0-9]*/comm"):
        try:
            if name.read_text().startswith(_MPS):
                return True
        except OSError:  # it has ended meanwhile
            continue
    return False
