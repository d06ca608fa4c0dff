"""Simulated GPUs, declared for the demo and for tests: they compute nothing, and report what real ones would."""

from __future__ import annotations

import math
import re
import time
import uuid
import zlib
from collections.abc import Callable

from nodes.agent.hardware.gpus.base import AttemptByGpu, GpusUnavailable, PidOwner
from nodes.protocol.messages import GpuInfo, GpuProcess, GpuSample

NAMESPACE = uuid.UUID("5b2f5c7e-6d0b-4f5a-9a39-8b7f3f1c2a64")
STEP_S = 5
"""Readings change this often."""
DECLARATION = re.compile(r"(?P<count>\d{1,3})x(?P<model>[A-Za-z0-9][A-Za-z0-9._-]*?)(?:-(?P<gb>\d{1,4})GB)?")
COUNTING = re.compile(r"G?[HB]\d{2}")
"""Models from Hopper on, which count what their multiprocessors do."""
DEFAULT_GB = 16
MOST = 64
NO_PID = 0
"""Stands for the process in a reading: nobody can say which of a container's processes would use the GPU."""


class SimulatedBackend:
    """GPUs by a declaration such as ``4xA100-80GB`` or ``4xA100-80GB,2xT4-16GB``.

    Their UUIDs are derived from the node's name, so that two nodes on one machine never share one and a restart keeps
    them. A GPU is busy while ``held`` names an attempt on it. ``now``: unix seconds. Raises GpusUnavailable when the
    declaration cannot be read.
    """

    simulated = True

    def __init__(
        self, declaration: str, *, node: str, held: AttemptByGpu, now: Callable[[], float] = time.time
    ) -> None:
        self._held, self._now = held, now
        self._infos = tuple(_declared(declaration, node))

    def inventory(self) -> tuple[GpuInfo, ...]:
        return self._infos

    def sample(self, pid_owner: PidOwner) -> tuple[GpuSample, ...]:
        held = self._held()
        return tuple(self._sample(info, held.get(info.uuid)) for info in self._infos)

    def holders(self, uuid: str) -> tuple[int, ...]:
        """None: what runs beside a declared GPU does not use it."""
        return ()

    def use(self, uuid: str) -> None:
        """A declared GPU has no memory."""

    def close(self) -> None:
        """Nothing to release."""

    def _sample(self, info: GpuInfo, attempt: str | None) -> GpuSample:
        load = 0 if attempt is None else _load(info.uuid, int(self._now()) // STEP_S)
        used = 0 if attempt is None else info.memory_mb * (35 + load // 2) // 100
        counting = COUNTING.match(info.model) is not None
        return GpuSample(
            uuid=info.uuid,
            utilisation=load,
            memory_used_mb=used,
            temperature_c=31 + load * 2 // 5,
            power_w=60 + load * 3,
            sm_clock_mhz=210 if attempt is None else 1410,
            ecc_uncorrected=0,
            sm_active=load * 4 // 5 if counting else None,
            sm_occupancy=load * 2 // 5 if counting else None,
            tensor_active=load // 2 if counting else None,
            dram_active=load * 3 // 5 if counting else None,
            processes=(
                () if attempt is None else (GpuProcess(pid=NO_PID, memory_mb=used, attempt=attempt, utilisation=load),)
            ),
        )


def _load(uuid: str, step: int) -> int:
    """Utilisation like a training job's, in percent: a slow wave between 60 and 100, each GPU with its own phase."""
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
