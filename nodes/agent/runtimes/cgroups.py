"""What the kernel tells of a container by its first process: whose it is and what it uses (cgroup v1 and v2); and
whether limits can be raised on this machine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from nodes.agent.runtimes.base import Usage

_CONTAINER = re.compile(r"[0-9a-f]{64}")
_NVIDIA = re.compile(r"^(?:a |c (?:195|\*):)", re.MULTILINE)
"""Of a cgroup's list of devices: all that there are, or those of NVIDIA's driver, whose number is always the same."""
_CONTROL = Path("/dev/nvidiactl")
"""What every program opens that uses a GPU of NVIDIA's. The cgroup is asked before the driver."""
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
    """The id of the container in whose cgroup a process of the host is; None: in none."""
    try:
        text = Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return None
    match = _CONTAINER.search(text)
    return match.group() if match else None


def cgroup_usage(pid: int) -> Usage | None:
    """What the container of ``pid`` uses; None when it is gone or the cgroup files are not where they are sought."""
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


def cgroup_denies_gpus(pid: int, *, proc: Path = Path("/proc"), root: Path = _ROOT, node: Path = _CONTROL) -> bool:
    """Whether the kernel lets the container of ``pid`` open none of NVIDIA's devices: by its list of them, and with
    cgroup v2, which shows none, by trying. False where neither can be had."""
    try:
        places = _places((proc / str(pid) / "cgroup").read_text())
        if "devices" not in places:
            return cgroup_refuses(root / places[""].lstrip("/"), node)
        listed = (root / "devices" / places["devices"].lstrip("/") / "devices.list").read_text()
    except (OSError, KeyError, ValueError):
        return False
    return not _NVIDIA.search(listed)


def cgroup_refuses(folder: Path, node: Path) -> bool:
    """Whether processes of this cgroup may not open the device: one of our own goes there and tries. What it gets from
    a driver, or none, says nothing: only the cgroup's refusal counts."""
    program = [sys.executable, "-I", "-S", "-c", _TRY, str(folder / "cgroup.procs"), str(node)]
    try:
        return subprocess.run(program, capture_output=True, timeout=_TRY_S, check=False).returncode == _REFUSED
    except (OSError, subprocess.TimeoutExpired):
        return False


def machine_raises_limits(status: Path = Path("/proc/1/status")) -> bool:
    """False where the machine's first process, and so no Engine on it, may raise resource limits: some containers
    and virtual machines are made without CAP_SYS_RESOURCE."""
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
