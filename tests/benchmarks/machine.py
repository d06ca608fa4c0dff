"""How fast the machine is at the moment, told beside figures: the same one takes twice as long on a bad day."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from time import process_time

ADDITIONS = 10_000_000


def process_cpu(pid: int) -> float:
    """Seconds of a core that a process of this machine has taken since it began."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def machine_told() -> float:
    """Print what a fixed piece of Python takes of one core, and how busy the machine was; its seconds."""
    begin, total = process_time(), 0
    for number in range(ADDITIONS):
        total += number
    took = process_time() - begin
    load = os.getloadavg()[0]
    version = ".".join(map(str, sys.version_info[:3]))
    print(f"machine: {os.cpu_count()} cores, Python {version}; {ADDITIONS:,} additions take {took:.2f} s of one core; "
          f"load {load:.1f}", flush=True)  # fmt: skip
    return took
