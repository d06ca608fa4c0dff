"""What NVML tells of one GPU, and the kernel of this machine's memory. Sizes are bytes."""

from __future__ import annotations

import re
from pathlib import Path

import pynvml

CGROUPS = Path("/sys/fs/cgroup")


class Gpu:
    """By its UUID. Raises NVMLError where the driver does not answer."""

    def __init__(self, uuid: str) -> None:
        pynvml.nvmlInit()
        self.uuid = uuid
        self.handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        self.total = int(self._memory().total)

    def used(self) -> int:
        """Without the driver's own reserve."""
        return int(self._memory().used)

    def processes(self) -> dict[int, int]:
        """What each process holds, by pid; in a container without the host's pids none is told."""
        return {one.pid: one.usedGpuMemory or 0 for one in pynvml.nvmlDeviceGetComputeRunningProcesses_v3(self.handle)}

    def _memory(self) -> pynvml.c_nvmlMemory_v2_t:
        return pynvml.nvmlDeviceGetMemoryInfo(self.handle, pynvml.nvmlMemory_v2)


def resident(pid: int) -> int:
    """A process' own memory."""
    return _kilobytes(Path(f"/proc/{pid}/status"), "VmRSS")


def free_memory() -> int:
    """What a process of this machine can still have."""
    free = _kilobytes(Path("/proc/meminfo"), "MemAvailable")
    folder = _cgroup("self")
    limit = folder and _number(folder / "memory.max")
    used = folder and _number(folder / "memory.current")
    return min(free, limit - used) if limit and used else free


def charged(pid: int) -> int | None:
    """To the process' control group, with all others in it; None where there is none but the machine's."""
    folder = _cgroup(str(pid))
    return _number(folder / "memory.current") if folder else None


def _kilobytes(path: Path, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", path.read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _cgroup(pid: str) -> Path | None:
    """Its folder, in the second version's tree."""
    found = re.search(r"^0::/(.*)$", Path(f"/proc/{pid}/cgroup").read_text(), re.MULTILINE)
    return CGROUPS / found[1] if found else None


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
