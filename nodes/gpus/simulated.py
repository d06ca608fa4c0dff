"""Declared GPUs, for the demo and for tests: they compute nothing, and say what real ones would."""

from __future__ import annotations

import math
import re
import threading
import time
import uuid
import zlib
from collections.abc import Callable
from pathlib import Path

from nodes.gpus.base import GpusUnavailable, PidOwner
from nodes.protocol import GpuInfo, GpuProcess, GpuSample

NAMESPACE = uuid.UUID("5b2f5c7e-6d0b-4f5a-9a39-8b7f3f1c2a64")
STEP_S = 5
"""Readings change this often."""
DECLARATION = re.compile(r"(?P<count>\d{1,3})x(?P<model>[A-Za-z0-9][A-Za-z0-9._-]*?)(?:-(?P<gb>\d{1,4})GB)?")
DEFAULT_GB = 16
MOST = 64


class SimulatedBackend:
    """GPUs after a declaration such as ``4xA100-80GB`` or ``4xA100-80GB,2xT4-16GB``.

    Their UUIDs are derived from the node's name, so that two nodes on one machine never share one and a restart keeps
    them. A GPU is busy while a process that was named to ``occupy`` lives. ``now``: unix seconds. Raises
    GpusUnavailable when the declaration cannot be read.
    """

    simulated = True

    def __init__(self, declaration: str, *, node: str, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._pids: dict[str, set[int]] = {}
        self._infos = tuple(_declared(declaration, node))

    def inventory(self) -> tuple[GpuInfo, ...]:
        return self._infos

    def sample(self, pid_owner: PidOwner) -> tuple[GpuSample, ...]:
        return tuple(self._sample(info, pid_owner) for info in self._infos)

    def holders(self, uuid: str) -> tuple[int, ...]:
        with self._lock:
            alive = {pid for pid in self._pids.get(uuid, ()) if Path(f"/proc/{pid}").exists()}
            self._pids[uuid] = alive
        return tuple(sorted(alive))

    def occupy(self, uuids: tuple[str, ...], pid: int) -> None:
        with self._lock:
            for one in uuids:
                self._pids.setdefault(one, set()).add(pid)

    def close(self) -> None:
        """Nothing to let go."""

    def _sample(self, info: GpuInfo, pid_owner: PidOwner) -> GpuSample:
        holders = self.holders(info.uuid)
        load = _load(info.uuid, int(self._now()) // STEP_S) if holders else 0
        used = info.memory_mb * (35 + load // 2) // 100 if holders else 0
        return GpuSample(
            uuid=info.uuid,
            utilisation=load,
            memory_used_mb=used,
            temperature_c=31 + load * 2 // 5,
            power_w=60 + load * 3,
            sm_clock_mhz=1410 if holders else 210,
            ecc_uncorrected=0,
            processes=tuple(
                GpuProcess(pid=pid, memory_mb=used // len(holders), attempt=pid_owner(pid)) for pid in holders
            ),
        )


def _load(uuid: str, step: int) -> int:
    """Percent of a training job's kind: a slow wave between 60 and 100, each GPU in a phase of its own."""
    phase = zlib.crc32(uuid.encode()) % 628 / 100
    return min(100, max(0, round(80 + 15 * math.sin(step / 9 + phase) + 5 * math.sin(step * 2.3 + phase))))


def _declared(declaration: str, node: str) -> list[GpuInfo]:
    infos: list[GpuInfo] = []
    for kind, part in enumerate(declaration.split(",")):
        match = DECLARATION.fullmatch(part.strip())
        if match is None or not 1 <= int(match["count"]) <= MOST - len(infos):
            raise GpusUnavailable(
                f'"{part.strip()}" declares no GPUs: write for example 4xA100-80GB, at most {MOST} GPUs in all'
            )
        for _ in range(int(match["count"])):
            infos.append(_gpu(node, len(infos), match, kind))
    return infos


def _gpu(node: str, index: int, match: re.Match[str], kind: int) -> GpuInfo:
    gigabytes = match["gb"]
    return GpuInfo(
        uuid=f"GPU-{uuid.uuid5(NAMESPACE, f'{node}/{index}')}",
        index=index,
        model=f"{match['model']}-{gigabytes}GB" if gigabytes else match["model"],
        memory_mb=int(gigabytes or DEFAULT_GB) * 1024,
        pci=f"00000000:{0x10 + index:02X}:00.0",
        nvlink_group=kind,
        pcie_group=index // 2,
        driver="simulated",
    )
