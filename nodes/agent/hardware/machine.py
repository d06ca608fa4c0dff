"""CPU and memory of this server: what exists, and what jobs are promised."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import NamedTuple

import psutil

from nodes.protocol.messages import ContainerSpec


class Amounts(NamedTuple):
    """CPU in thousandths of a core and memory in MB."""

    cpu_milli: int
    memory_mb: int


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine. ``least``: amounts promised although less may exist. Only beside simulated GPUs, where nothing is
    computed in earnest: a small machine then takes the jobs of a large one, limited to what exists."""

    least: Amounts = Amounts(0, 0)

    def there(self) -> Amounts:
        """The cores that this process, and so what it starts, may use, and the machine's memory."""
        return Amounts(1000 * len(os.sched_getaffinity(0)), psutil.virtual_memory().total >> 20)

    def promised(self) -> Amounts:
        return Amounts(*map(max, self.there(), self.least))

    def held_to(self, spec: ContainerSpec) -> ContainerSpec:
        """The spec limited to what exists: an Engine refuses more CPU than the machine has, and a higher memory limit
        would limit nothing."""
        there, promised, limits = self.there(), self.promised(), spec.limits
        if promised.cpu_milli > there.cpu_milli:
            limits = replace(limits, cpu_milli=min(limits.cpu_milli, there.cpu_milli))
        if promised.memory_mb > there.memory_mb:
            limits = replace(limits, memory_mb=min(limits.memory_mb, there.memory_mb))
        return replace(spec, limits=limits)
