"""Sanitizes inventories. A node may report anything: columns, the scheduler's sums and what runs on other nodes must
withstand it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from ipaddress import ip_address
from itertools import count, islice

from nodes.protocol.messages import MOST_LISTENERS, DiskShare, GpuInfo, Inventory, Listener
from nodes.protocol.states import ListenerKind
from portal.common.hosts import host_plain
from portal.common.told import GPUS, MOST, amount_believed, perhaps_believed
from portal.hardware import wordings

FIRST_PORT, LAST_PORT = 1, 65535
USUAL_PORTS = (20000, 29999)
UUID, MODEL, ADDRESS, INTERFACE, RUNTIME, RACK = 80, 100, 64, 32, 16, 64
"""Column lengths."""
HOST, VERSION, SENTENCE, NAME = 255, 100, 400, 200
"""Maximum lengths of texts without a column of their own."""
SHARES, CAPABILITIES = 6, 32
"""Maximum number of largest disk uses, and of capabilities."""
STORAGES = 1024
"""Maximum number of storages taken, more than any node has: each stands in many answers."""
PORTS = 256
"""Maximum number of busy ports kept: these are given out last."""
PARK_FAULT = "park_fault"
"""Key of a node's inventory: why no task can be parked there, as a stored sentence."""
UNGUARDED = "unguarded"
"""Key in a node's inventory: the storages in which setuid programs left by jobs take effect, by root, and why."""
ROOT = 500
"""Maximum length of a storage's root."""


def inventory_believed(found: Inventory) -> Inventory:
    """The inventory with plausible numbers, texts that fit, and each GPU once with an index of its own."""
    first, last = (found.port_first, found.port_last) if ports_fit(found) else USUAL_PORTS
    return replace(
        found,
        cpu_milli=amount_believed(found.cpu_milli),
        memory_mb=amount_believed(found.memory_mb),
        there_cpu_milli=amount_believed(found.there_cpu_milli),
        there_memory_mb=amount_believed(found.there_memory_mb),
        disk_free_mb=amount_believed(found.disk_free_mb),
        disk_total_mb=amount_believed(found.disk_total_mb),
        address=_address(found.address),
        interface=found.interface[:INTERFACE],
        runtime=found.runtime[:RUNTIME],
        rack=found.rack[:RACK],
        hostname=found.hostname[:HOST],
        engine=found.engine[:VERSION],
        kernel=found.kernel[:VERSION],
        agent=found.agent[:VERSION],
        park_mb=min(amount_believed(found.park_mb), amount_believed(found.memory_mb)),
        park_fault=found.park_fault and replace(found.park_fault, message=found.park_fault.message[:SENTENCE]),
        engine_away=found.engine_away[:SENTENCE],
        capabilities=tuple(one[:VERSION] for one in found.capabilities[:CAPABILITIES]),
        storages=tuple(root for root in found.storages[:STORAGES] if len(root) <= ROOT),
        storage_faults=_of_storages(found.storage_faults),
        storages_unguarded=_of_storages(found.storages_unguarded),
        largest=tuple(
            DiskShare(what=one.what[:NAME], mb=amount_believed(one.mb), name=one.name[:NAME])
            for one in found.largest[:SHARES]
        ),
        port_first=first,
        port_last=last,
        ports_busy=tuple(sorted({port for port in found.ports_busy[:PORTS] if first <= port <= last})),
        listeners=tuple(dict.fromkeys(filter(_known, found.listeners[:MOST_LISTENERS]))),
        gpus=_gpus(found.gpus[:GPUS]),
    )


def ports_fit(found: Inventory) -> bool:
    """Whether the reported ports are a valid range. Otherwise the default range is assumed: without ports no task could
    start there, and the scheduler would choose the node again and again."""
    return FIRST_PORT <= found.port_first <= found.port_last <= LAST_PORT


def too_many(found: Inventory) -> list[str]:
    """Phrases for each list longer than its limit."""
    told = (
        (wordings.GPUS, len(found.gpus), GPUS),
        (wordings.STORAGES, len(found.storages), STORAGES),
        (wordings.STORAGE_FAULTS, len(found.storage_faults), STORAGES),
        (wordings.UNGUARDED, len(found.storages_unguarded), STORAGES),
    )
    return [what(number=f"{number:,}", most=f"{most:,}") for what, number, most in told if number > most]


def _of_storages(told: Mapping[str, str]) -> dict[str, str]:
    """A sentence per storage root."""
    return {root: words[:SENTENCE] for root, words in islice(told.items(), STORAGES) if len(root) <= ROOT}


def _address(told: str) -> str:
    """Empty if it is no host: it becomes a word of other tasks' commands and files."""
    return host_plain(told) if len(told) <= ADDRESS else ""


def _known(told: Listener) -> bool:
    """Whether kind and port are valid, and the address is loopback or unspecified."""
    if told.kind not in set(ListenerKind) or not FIRST_PORT <= told.port <= LAST_PORT or len(told.address) > ADDRESS:
        return False
    try:
        address = ip_address(told.address)
    except ValueError:
        return False
    return address.is_unspecified or (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _gpus(found: Iterable[GpuInfo]) -> tuple[GpuInfo, ...]:
    """GPUs with unique indices. Of two with one index the healthy one keeps it, else the first: a lost GPU is still
    reported under its old index once those behind it have moved up. The rest get the first free one."""
    known: dict[str, GpuInfo] = {}
    for info in found:
        known.setdefault(info.uuid[:UUID], info)
    places: dict[int, str] = {}
    for uuid, info in sorted(known.items(), key=lambda one: not one[1].healthy):
        if 0 <= info.index <= MOST:
            places.setdefault(info.index, uuid)
    numbers = {uuid: index for index, uuid in places.items()}
    free = (index for index in count() if index not in places)
    return tuple(
        replace(
            info,
            uuid=uuid,
            index=numbers[uuid] if uuid in numbers else next(free),
            model=info.model[:MODEL],
            memory_mb=amount_believed(info.memory_mb),
            pci=info.pci[:VERSION],
            numa=perhaps_believed(info.numa),
            nvlink_group=perhaps_believed(info.nvlink_group),
            pcie_group=perhaps_believed(info.pcie_group),
            driver=info.driver[:VERSION],
            cuda=info.cuda[:VERSION],
            fault=info.fault[:SENTENCE],
        )
        for uuid, info in known.items()
    )
