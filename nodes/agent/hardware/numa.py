"""CPUs near a GPU, from the kernel's list of NUMA nodes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nodes.protocol.messages import GpuInfo

_NODES = Path("/sys/devices/system/node")


def cpus_near(gpus: Iterable[GpuInfo], nodes: Path = _NODES) -> dict[str, frozenset[int]]:
    """The CPUs of each GPU's NUMA node, by UUID; GPUs whose node is not known are left out."""
    near = {gpu.uuid: _cpus(nodes / f"node{gpu.numa}" / "cpulist") for gpu in gpus if gpu.numa is not None}
    return {uuid: cpus for uuid, cpus in near.items() if cpus}


def _cpus(path: Path) -> frozenset[int]:
    try:
        text = path.read_text().strip()
    except OSError:
        return frozenset()
    spans = (part.partition("-") for part in text.split(",") if part)
    return frozenset(cpu for first, _, last in spans for cpu in range(int(first), int(last or first) + 1))
