"""Foreign processes on GPUs: those of no container of ours, somebody's own or left behind by a container."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import psutil

from nodes.protocol.messages import GpuInfo, GpuSample
from nodes.protocol.names import FOREIGN_PROCESS


class ForeignWatch:
    """Foreign processes in the last readings, and since when (monotonic seconds). One seen for less than ``after_s`` is
    not reported: a container that ends is forgotten a moment before its last process is gone."""

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self._since: dict[tuple[str, int], float] = {}
        self._now = 0.0

    def note(self, readings: Iterable[GpuSample], now: float) -> None:
        """Takes a reading of every GPU."""
        seen = [(gpu.uuid, one.pid) for gpu in readings for one in gpu.processes if one.attempt is None]
        self._since = {key: self._since.get(key, now) for key in seen}
        self._now = now

    def mark(self, gpus: tuple[GpuInfo, ...]) -> tuple[GpuInfo, ...]:
        """These GPUs, with those that a foreign process has held for long marked unhealthy, unless they have a worse
        fault."""
        return tuple(self._marked(gpu) for gpu in gpus)

    def _marked(self, gpu: GpuInfo) -> GpuInfo:
        pids = sorted(
            pid for (uuid, pid), since in self._since.items() if uuid == gpu.uuid and self._now - since >= self._after_s
        )
        if not pids or not gpu.healthy:
            return gpu
        more = f" and {len(pids) - 1} more" if len(pids) > 1 else ""
        return replace(gpu, healthy=False, fault=f"{FOREIGN_PROCESS}{pids[0]} ({_name(pids[0])}){more}")


def _name(pid: int) -> str:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return "not to be seen from here"
