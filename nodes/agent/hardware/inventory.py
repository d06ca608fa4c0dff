"""Inventory of this server, for reports."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import socket
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from nodes.agent.disk.guard import free_percent
from nodes.agent.hardware.gpus.base import GpuBackend
from nodes.agent.hardware.gpus.suspension import Suspension
from nodes.agent.hardware.machine import Machine
from nodes.agent.runtimes.base import Runtime, RuntimeFacts, RuntimeUnavailable
from nodes.agent.runtimes.ports import ports_listening
from nodes.protocol.messages import Inventory
from nodes.protocol.parking import SUSPEND

AGENT_VERSION = "0.1.0"
_LOOPBACK = ("127.0.0.1", "lo")


@dataclass(slots=True)
class InventoryReader:
    """Reads the inventory anew at each call; the runtime's facts stay as they were while it does not answer.

    ``address`` and ``interface``: set by the administrator, or empty to use those of the default route. ``state``: the
    agent's own folder; of its disk and the containers' the one with less space is reported.
    """

    state: Path
    runtime: Runtime
    gpus: GpuBackend
    suspension: Suspension
    machine: Machine = field(default_factory=Machine)
    address: str = ""
    interface: str = ""
    port_first: int = 20000
    port_last: int = 29999
    rack: str = ""
    _facts: RuntimeFacts | None = field(default=None)

    def read(self) -> Inventory:
        facts, park_fault = self._runtime_facts(), self.suspension.fault()
        suspends = () if park_fault else (SUSPEND,)
        address, interface = job_address(self.address, self.interface)
        there, promised = self.machine.there(), self.machine.promised()
        containers = facts.disk if facts and os.path.isdir(facts.disk) else "/"
        disk = shutil.disk_usage(min(containers, str(self.state), key=free_percent))
        return Inventory(
            hostname=socket.gethostname(),
            cpu_milli=promised.cpu_milli,
            memory_mb=promised.memory_mb,
            there_cpu_milli=there.cpu_milli,
            there_memory_mb=there.memory_mb,
            gpus=self.gpus.inventory(),
            simulated=self.gpus.simulated,
            address=address,
            interface=interface,
            runtime=self.runtime.name,
            engine=facts.engine if facts else "",
            kernel=platform.release(),
            agent=AGENT_VERSION,
            port_first=self.port_first,
            port_last=self.port_last,
            ports_busy=ports_listening(self.port_first, self.port_last),
            capabilities=(*facts.capabilities, *suspends) if facts else (),
            park_fault=park_fault,
            disk_free_mb=disk.free >> 20,
            disk_total_mb=disk.total >> 20,
            rack=self.rack,
        )

    def _runtime_facts(self) -> RuntimeFacts | None:
        with contextlib.suppress(RuntimeUnavailable):
            self._facts = self.runtime.facts()
        return self._facts


def job_address(address: str, interface: str) -> tuple[str, str]:
    """(IPv4 address, interface) that jobs use between nodes; what is given is kept, the rest is found."""
    addresses = _addresses()
    if address and not interface:
        interface = next((name for name, own in addresses.items() if address in own), "")
    interface = interface or _default_interface() or _LOOPBACK[1]
    own = addresses.get(interface) or [_LOOPBACK[0]]
    return address or own[0], interface


def _addresses() -> dict[str, list[str]]:
    return {
        name: [one.address for one in all_of if one.family is socket.AF_INET]
        for name, all_of in psutil.net_if_addrs().items()
    }


def _default_interface() -> str | None:
    """The interface of the IPv4 default route with the lowest metric."""
    routes = [line.split() for line in Path("/proc/net/route").read_text().splitlines()[1:]]
    default = [(int(route[6]), route[0]) for route in routes if route[1] == "00000000" and int(route[3], 16) & 1]
    return min(default)[1] if default else None
