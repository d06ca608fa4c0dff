"""What a running process takes: memory, open handles, CPU. Linux only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Footprint:
    """Of a process and those below it. ``memory_mb``: resident, what is shared counted by its share (PSS);
    ``handles``: open files and sockets; ``cpu_s``: since their start."""

    memory_mb: float
    handles: int
    cpu_s: float


def footprint(pid: int) -> Footprint:
    family = list(_family(pid))
    return Footprint(
        memory_mb=sum(_pss_kb(one) for one in family) / 1024,
        handles=sum(_handles(one) for one in family),
        cpu_s=sum(_cpu_s(one) for one in family),
    )


def _family(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):
            for child in (task / "children").read_text().split():
                yield from _family(int(child))


def _pss_kb(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


def _handles(pid: int) -> int:
    with suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd"))
    return 0


def _cpu_s(pid: int) -> float:
    with suppress(OSError):
        user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) * _TICK_S
    return 0.0
