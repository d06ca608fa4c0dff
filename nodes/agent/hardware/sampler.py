"""Sampler of GPUs, containers and inventory, every few seconds in a thread of its own: a driver or an Engine that hangs
delays no report."""

from __future__ import annotations

import os
import threading
from dataclasses import replace

import psutil
import structlog

from nodes.agent.clock import Clock
from nodes.agent.hardware.gpus.base import GpuBackend
from nodes.agent.hardware.gpus.foreign import ForeignWatch
from nodes.agent.hardware.inventory import InventoryReader
from nodes.agent.runtimes.base import Runtime, RuntimeUnavailable, Usage
from nodes.protocol.messages import Inventory, Sample

log = structlog.get_logger(__name__)


class Sampler:
    """``latest`` is the newest sample, or None before the first; ``inventory`` is at most one sample old."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        gpus: GpuBackend,
        inventory: InventoryReader,
        clock: Clock,
        every_s: float,
        foreign: ForeignWatch,
    ) -> None:
        self._runtime, self._gpus, self._clock, self._every_s = runtime, gpus, clock, every_s
        self._inventory, self._foreign = inventory, foreign
        self._usage: tuple[float, dict[str, Usage]] | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self.latest: Sample | None = None
        self.inventory: Inventory = inventory.read()

    def open(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closed.set()

    def read(self) -> Sample:
        """Reads one sample. CPU per task is the mean since the sample before."""
        usage = self._read_usage()
        return Sample(
            at_ms=self._clock.now_ms(),
            gpus=self._gpus.sample(self._runtime.owner),
            load_milli=int(os.getloadavg()[0] * 1000),
            memory_used_mb=psutil.virtual_memory().used >> 20,
            cpu_milli=self._cpu(usage),
            memory_mb={attempt: one.memory_mb for attempt, one in usage.items()},
        )

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self.latest = self.read()
                self.inventory = self._look()
            except Exception:
                log.exception("sample failed")
            self._closed.wait(self._every_s)

    def _look(self) -> Inventory:
        """The inventory, with GPUs used by foreign processes marked."""
        found = self._inventory.read()
        if self.latest is not None:
            self._foreign.note(self.latest.gpus, self._clock.monotonic())
        return replace(found, gpus=self._foreign.mark(found.gpus))

    def _read_usage(self) -> dict[str, Usage]:
        try:
            return self._runtime.usage()
        except RuntimeUnavailable:
            return {}

    def _cpu(self, usage: dict[str, Usage]) -> dict[str, int]:
        now = self._clock.monotonic()
        before, self._usage = self._usage, (now, usage)
        if before is None or now <= before[0]:
            return {}
        span = now - before[0]
        both = usage.keys() & before[1].keys()
        return {a: max(0, int(1000 * (usage[a].cpu_s - before[1][a].cpu_s) / span)) for a in both}
