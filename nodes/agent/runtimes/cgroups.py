"""Control groups (v1 and v2) of containers, found by their processes: owner, usage, access to GPUs; and whether this
machine can raise resource limits."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from nodes.agent.runtimes.base import Usage

_CONTAINER = re.compile(r"[0-9a-f]{64}")
_NVIDIA = re.compile(r"^(?:a |c (?:195|\*):)", re.MULTILINE)
"""Lines of a cgroup's device list that allow all devices, or those of NVIDIA's driver, whose major number never
changes."""
_CONTROL = Path("/dev/nvidiactl")
"""The device that every program opens that uses an NVIDIA GPU. The cgroup is asked before the driver."""
_REFUSED, _TRY_S = 77, 10.0
_TRY = f"""
import errno, os, sys
place = os.open(sys.argv[1], os.O_WRONLY)
os.write(place, b"0")
try:
    os.open(sys.argv[2], os.O_RDWR | os.O_NONBLOCK)
except OSError as error:
    sys.exit({_REFUSED} if error.errno == errno.EPERM else 0)
"""
_CAP_SYS_RESOURCE = 24
_ROOT = Path("/sys/fs/cgroup")


def cgroup_container(pid: int) -> str | None:
    """The id of the container in whose cgroup a host process is; None: in none."""
    try:
        text = Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return None
    match = _CONTAINER.search(text)
    return match.group() if match else None


def cgroup_usage(pid: int) -> Usage | None:
    """Usage of the container of ``pid``; None when it is gone or its cgroup files are not found."""
    try:
        places = _places(Path(f"/proc/{pid}/cgroup").read_text())
        if "" in places and "memory" not in places:
            return _version_2(_ROOT / places[""].lstrip("/"))
        cpu, memory = places["cpuacct"].lstrip("/"), places["memory"].lstrip("/")
        return Usage(
            cpu_s=int((_ROOT / "cpuacct" / cpu / "cpuacct.usage").read_text()) / 1e9,
            memory_mb=int((_ROOT / "memory" / memory / "memory.usage_in_bytes").read_text()) >> 20,
        )
    except (OSError, KeyError, ValueError):
        return None


def cgroup_memory_limit(pid: int, limit: int, *, proc: Path = Path("/proc"), root: Path = _ROOT) -> None:
    """Sets the memory limit of the container of ``pid`` in bytes, without swap. Raises OSError where the kernel does
    not take it, KeyError without such a control group."""
    places = _places((proc / str(pid) / "cgroup").read_text())
    if "memory" not in places:
        (root / places[""].lstrip("/") / "memory.max").write_text(str(limit))
        return
    folder = root / "memory" / places["memory"].lstrip("/")
    names = ["memory.limit_in_bytes", *(["memory.memsw.limit_in_bytes"] if _counts_swap(folder) else [])]
    if limit > int((folder / names[0]).read_text()):
        names.reverse()  # memory alone is never allowed more than memory and swap
    for name in names:
        (folder / name).write_text(str(limit))


def cgroup_memory_fits(pid: int, limit: int, *, proc: Path = Path("/proc"), root: Path = _ROOT) -> bool:
    """Whether what the container of ``pid`` cannot give back (its processes' own memory and its shared memory) lies
    below ``limit`` bytes: lowered beneath it, the limit would kill. True where it cannot be read."""
    try:
        places = _places((proc / str(pid) / "cgroup").read_text())
        unified = "memory" not in places
        folder = root / places[""].lstrip("/") if unified else root / "memory" / places["memory"].lstrip("/")
        told = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        held = ("anon", "shmem") if unified else ("total_rss", "total_shmem")
        return sum(int(told.get(name, 0)) for name in held) < limit
    except (OSError, KeyError, ValueError):
        return True


def _counts_swap(folder: Path) -> bool:
    return (folder / "memory.memsw.limit_in_bytes").exists()


def cgroup_denies_gpus(pid: int, *, proc: Path = Path("/proc"), root: Path = _ROOT, node: Path = _CONTROL) -> bool:
    """Whether the kernel lets the container of ``pid`` open no NVIDIA device: by its device list, and with cgroup v2,
    which has none, by trying. False where neither works."""
    try:
        places = _places((proc / str(pid) / "cgroup").read_text())
        if "devices" not in places:
            return cgroup_refuses(root / places[""].lstrip("/"), node)
        listed = (root / "devices" / places["devices"].lstrip("/") / "devices.list").read_text()
    except (OSError, KeyError, ValueError):
        return False
    return not _NVIDIA.search(listed)


def cgroup_refuses(folder: Path, node: Path) -> bool:
    """Whether processes of this cgroup may not open the device: a process of ours joins it and tries. Only the cgroup's
    refusal counts, not what the driver says."""
    program = [sys.executable, "-I", "-S", "-c", _TRY, str(folder / "cgroup.procs"), str(node)]
    try:
        return subprocess.run(program, capture_output=True, timeout=_TRY_S, check=False).returncode == _REFUSED
    except (OSError, subprocess.TimeoutExpired):
        return False


def machine_raises_limits(status: Path = Path("/proc/1/status")) -> bool:
    """Whether the machine's first process, and so an Engine, may raise resource limits: some containers and virtual
    machines are made without CAP_SYS_RESOURCE."""
    bounds = next(line for line in status.read_text().splitlines() if line.startswith("CapBnd:"))
    return bool(int(bounds.split()[1], 16) >> _CAP_SYS_RESOURCE & 1)


def _places(text: str) -> dict[str, str]:
    """Path by controller; the unified hierarchy's controller is the empty text."""
    lines = (line.split(":", 2) for line in text.splitlines())
    return {controller: path for _, controllers, path in lines for controller in controllers.split(",")}


def _version_2(folder: Path) -> Usage:
    cpu = dict(line.split() for line in (folder / "cpu.stat").read_text().splitlines())
    memory = int((folder / "memory.current").read_text())
    return Usage(cpu_s=int(cpu["usage_usec"]) / 1e6, memory_mb=memory >> 20)
