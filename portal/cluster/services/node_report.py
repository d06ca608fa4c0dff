"""Applies what nodes report of themselves: liveness, clock, and hardware."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Greatest

from nodes.protocol.messages import GpuInfo, Inventory, Report
from portal.cluster import wordings
from portal.cluster.services.topology import gpu_settle, gpu_type_before_topology, topology_take_first
from portal.common.prepared import Prepared, Slot
from portal.common.sentences import said_by_node
from portal.common.wake import scheduler_wake
from portal.hardware.acceptance import growth, offer_of, offer_within
from portal.hardware.agents import UNREAD
from portal.hardware.clocks import BELIEVED_MS, clock_fault, clock_said, skew_after
from portal.hardware.inventories import PARK_FAULT, SENTENCE, UNGUARDED, inventory_believed, ports_fit, too_many
from portal.hardware.listeners import LISTENERS
from portal.hardware.models import CellType, Gpu, Node, NodeEvent
from portal.hardware.services.cards import cards_take
from portal.hardware.services.fences import fence_columns
from portal.hardware.services.health import health_move
from portal.hardware.services.nodes import node_event, node_events
from portal.hardware.services.stuck import due_after, stuck_columns
from portal.hardware.silences import heard_since, portal_late_ms
from portal.hardware.states import NodeHealth
from portal.hardware.wordings import CLOCK_RIGHT, CLOCK_WRONG

log = logging.getLogger(__name__)

LAST_GENERATION = 1 << 62
"""Highest generation believed of a node: its successor still fits the column."""


def node_report(*, node: Node, report: Report, now: datetime) -> bool:
    """Apply the node's own part of a report. False: an older or repeated one, to be ignored as a whole."""
    with transaction.atomic():
        due = due_after(node, report, now)
        heard = {"last_report_at": now, "heard_since": heard_since(node, now)}
        if not _taken(node, report, now, **heard, **due._asdict()):
            _old_start_tell(node, report, now)
            return False
        node.due_since = due.due_since
        if node.health != NodeHealth.HEALTHY:
            _heard_again(node, now)
        elif node.health_reason:  # it was silent together with most others
            Node.objects.filter(pk=node.pk, health=NodeHealth.HEALTHY).update(health_reason="")
            transaction.on_commit(scheduler_wake)
        _inventory_take(node, report.inventory, now)
    return True


def node_report_late(*, node: Node, report: Report, now: datetime) -> None:
    """Learn the state of the node's clock from a report that had expired on arrival, and nothing else."""
    with transaction.atomic():
        _taken(node, report, now)


def node_report_unread(*, node: Node, why: str) -> bool:
    """Remember that a signed report is of another release and cannot be decoded, until one can be. False: already
    known."""
    if UNREAD in node.inventory:
        return False
    node.inventory = {**node.inventory, UNREAD: why[:SENTENCE]}
    known = Node.objects.filter(pk=node.pk, public_key=node.public_key)
    return bool(known.exclude(inventory__has_key=UNREAD).update(inventory=node.inventory))


def _taken(node: Node, report: Report, now: datetime, **more: object) -> bool:
    """Whether the report is newer than all before; if so, updates the clock's skew."""
    fresh = Q(boot__lt=report.boot) | Q(boot=report.boot, seq__lt=report.seq)
    late = int(now.timestamp() * 1000) - report.sent_ms
    own = min(late, portal_late_ms(now=now, beside=node)) if late > BELIEVED_MS else 0
    skew = skew_after(before_ms=node.clock_skew_ms, late_ms=late - own)
    # A node that has seen a later list than our last one: this portal was restored to before that. Go on from there,
    # since the node takes no earlier one.
    seen = Greatest(F("generation"), min(report.generation, LAST_GENERATION))
    # Its key may have been replaced since the report was verified.
    taken = Node.objects.filter(fresh, pk=node.pk, public_key=node.public_key).update(
        boot=report.boot, seq=report.seq, clock_skew_ms=skew, late_ms=late, late_at=now, generation=seen, **more
    )
    if taken:
        _clock_take(node, skew, now)
    return bool(taken)


OLD_START = "old_start"
"""Key in a node's inventory while its agent's boot number is below one already heard: reported once."""


def _old_start_tell(node: Node, report: Report, now: datetime) -> None:
    """Report once why a node that does report stays silent. While its newer agent is heard, this is just the previous
    one's last report, delayed."""
    silent = Q(last_report_at=None) | Q(last_report_at__lt=now - timedelta(seconds=settings.NODE_LOST_AFTER_S / 2))
    later = Node.objects.filter(silent, pk=node.pk, public_key=node.public_key, boot__gt=report.boot)
    told = {**node.inventory, OLD_START: True}
    if later.exclude(inventory__has_key=OLD_START).update(inventory=told):
        message = wordings.OLD_START(node=node.name)
        node_event(node=node, code=OLD_START, message=message, now=now, told=report.boot, heard=node.boot)
        log.warning("%s (%s, %s)", message, report.boot, node.boot)


def _heard_again(node: Node, now: datetime) -> None:
    if health_move(node, NodeHealth.HEALTHY, reason=""):
        wording = wordings.FIRST_REPORT if node.health == NodeHealth.UNKNOWN else wordings.BACK
        node_event(node=node, code="healthy", message=wording(node=node.name), now=now)


def _clock_take(node: Node, skew_ms: int, now: datetime) -> None:
    """Events, once each: its clock is wrong; it is right again."""
    before, fault = node.clock_fault, clock_fault(skew_ms)
    if fault and not before:
        message = CLOCK_WRONG(node=node.name, why=clock_said(skew_ms))
        node_event(node=node, code="clock_wrong", message=message, now=now, skew_ms=skew_ms)
    elif before and not fault:
        node_event(node=node, code="clock_right", message=CLOCK_RIGHT(node=node.name), now=now)


_GPUS = Prepared(lambda: Gpu.objects.filter(node_id=Slot("node", int)).order_by())


def _inventory_take(node: Node, reported: Inventory, now: datetime) -> None:
    said = inventory_believed(reported)
    acceptance = _claims_take(node, said, now)
    rows = {gpu.uuid: gpu for gpu in _GPUS(node=node.pk)}
    found = offer_within(said, acceptance["accepted"], {uuid for uuid, gpu in rows.items() if gpu.present})
    told = acceptance | {
        "cpu_milli": found.cpu_milli,
        "memory_mb": found.memory_mb,
        "address": found.address,
        "interface": found.interface,
        "runtime": found.runtime,
        "simulated": found.simulated,
        "port_first": found.port_first,
        "port_last": found.port_last,
        "storages": list(found.storages),
        "storage_faults": dict(found.storage_faults),
        "inventory": {
            "hostname": found.hostname,
            "engine": found.engine,
            "kernel": found.kernel,
            "agent": found.agent,
            "capabilities": list(found.capabilities),
            "rack": found.rack,
            **_parking(found),
            **({"ports_busy": list(found.ports_busy)} if found.ports_busy else {}),
            **({UNGUARDED: dict(found.storages_unguarded)} if found.storages_unguarded else {}),
            **_listeners(found),
            **_there(found),
            **_disk(node, found),
            **_nonsense(node, reported, said, now),
        },
    }
    if found.disk_full != (node.full_since is not None):
        _full_take(node, found, now)
        told["full_since"] = now if found.disk_full else None
    told |= stuck_columns(node, found, now)
    changed = {name: value for name, value in told.items() if getattr(node, name) != value}
    if changed:
        Node.objects.filter(pk=node.pk).update(**changed)
        for name, value in changed.items():
            setattr(node, name, value)
        transaction.on_commit(scheduler_wake)
    _gpus_take(node, found, rows, now)


GREW = "grew"
SAID_AGAIN = timedelta(hours=1)


def _claims_take(node: Node, said: Inventory, now: datetime) -> dict[str, Any]:
    """The node's accepted offer, and its claims beyond. Accepts the first claims if ``accept_first``."""
    claimed = offer_of(said)
    accepted = node.accepted
    if node.accept_first:
        known = (accepted or {}).get("storages", ())
        accepted = {**claimed, "storages": sorted({*known, *claimed["storages"]})}
        first_at = node.accepted_at or now
        return {"accepted": accepted, "accepted_at": first_at, "claims": {}, "accept_first": False}
    if accepted is None:
        return {"accepted": None, "claims": claimed}
    grown = growth(claimed, accepted)
    if grown and not node.claims:
        _growth_tell(node, now)
    return {"accepted": accepted, "claims": claimed if grown else {}}


def _growth_tell(node: Node, now: datetime) -> None:
    """Event at most hourly: every other report may repeat it."""
    if not NodeEvent.objects.filter(node=node, code=GREW, at__gt=now - SAID_AGAIN).exists():
        node_event(node=node, code=GREW, message=wordings.GREW(node=node.name), now=now)


def _listeners(found: Inventory) -> dict[str, object]:
    told = [[one.kind, one.address, one.port] for one in found.listeners]
    return {LISTENERS: told} if told else {}


def _parking(found: Inventory) -> dict[str, Any]:
    """Its memory for parked tasks, and why none can be parked there."""
    fault = found.park_fault
    said = {PARK_FAULT: said_by_node(fault.message, fault.said).stored()} if fault is not None else {}
    return said | ({"park_mb": found.park_mb} if found.park_mb else {})


def _there(found: Inventory) -> dict[str, dict[str, int]]:
    """Real amounts of a machine that promises more; else empty."""
    there = {"cpu_milli": found.there_cpu_milli, "memory_mb": found.there_memory_mb}
    promised = {"cpu_milli": found.cpu_milli, "memory_mb": found.memory_mb}
    return {"there": there} if any(0 < there[name] < promised[name] for name in there) else {}


PORTS_WRONG, ADDRESS_WRONG, TOO_MANY = "ports_wrong", "address_wrong", "too_many"
"""Keys in a node's inventory while it names no valid port range, no valid address, or more than a node has: each
reported once."""


def _nonsense(node: Node, told: Inventory, believed: Inventory, now: datetime) -> dict[str, bool]:
    wrong: dict[str, str] = {}
    if not ports_fit(told):
        used = f"{believed.port_first}-{believed.port_last}"
        wrong[PORTS_WRONG] = wordings.PORTS_WRONG(node=node.name, ports=used)
    if told.address and not believed.address:
        wrong[ADDRESS_WRONG] = wordings.ADDRESS_WRONG(node=node.name)
    if many := too_many(told):
        wrong[TOO_MANY] = wordings.TOO_MANY(node=node.name, many=many)
    for code, message in wrong.items():
        if code not in node.inventory:
            node_event(node=node, code=code, message=message, now=now)
    return dict.fromkeys(wrong, True)


DISK_STEP = 2
"""Percentage points by which free space must change to be stored: reports come every few seconds."""


def _disk(node: Node, found: Inventory) -> dict[str, object]:
    """Free space and largest uses of the containers' disk; empty if the agent reports none."""
    if not found.disk_total_mb:
        return {}
    free, kept = 100 * found.disk_free_mb // found.disk_total_mb, node.inventory.get("disk_free_percent")
    same = isinstance(kept, int) and abs(kept - free) < DISK_STEP
    largest = [[one.what, one.name, one.mb] for one in found.largest]
    return {"disk_free_percent": kept if same else free, **({"largest": largest} if largest else {})}


def _full_take(node: Node, found: Inventory, now: datetime) -> None:
    """Record that its disk is full, or has space again."""
    wording = wordings.DISK_FULL if found.disk_full else wordings.DISK_ROOM
    node_event(node=node, code=wording.code, message=wording(node=node.name), now=now)


def _gpus_take(node: Node, found: Inventory, rows: dict[str, Gpu], now: datetime) -> None:
    """New GPUs get their slot in the node's topology; one no longer reported stays, not present. ``rows``: the node's
    GPUs by UUID."""
    for uuid in rows.keys() - {info.uuid for info in found.gpus}:
        if rows[uuid].present:
            rows[uuid].present = False
            Gpu.objects.filter(pk=rows[uuid].pk).update(present=False)
            message = wordings.GPU_GONE(index=rows[uuid].index, uuid=uuid, node=node.name)
            node_event(node=node, code="gpu_gone", message=message, now=now)
    came = [info.uuid for info in found.gpus if info.uuid not in rows or not rows[info.uuid].present]
    elsewhere = cards_take(node=node, uuids=came, now=now) if came else frozenset()
    here = [info for info in found.gpus if info.uuid not in elsewhere]
    changes = {info.uuid: _gpu_changes(rows[info.uuid], info) for info in here if info.uuid in rows}
    _indices_leave([rows[uuid] for uuid, changed in changes.items() if "index" in changed])
    came_new = _gpus_new(node, found, [info for info in here if info.uuid not in rows], now)
    for info in here:
        if info.uuid in came_new:
            rows[info.uuid] = came_new[info.uuid]
            gpu_settle(node=node, gpu=rows[info.uuid], others=rows.values())
        elif changed := changes[info.uuid]:
            row = rows[info.uuid]
            Gpu.objects.filter(pk=row.pk).update(**changed | {"present": True})
            if {"fault", "told", "present"} & changed.keys():
                why = _gpu_words(row, changed, info)
                message = wordings.GPU_CHANGED(index=info.index, node=node.name, why=why)
                node_event(node=node, code="gpu_changed", message=message, now=now)
    topology_take_first(node=node, now=now)


def _indices_leave(rows: Collection[Gpu]) -> None:
    """Frees the indices of those renumbered until each is written: of two that swap, the first would take an index that
    the other one still has."""
    if rows:
        Gpu.objects.filter(pk__in=[row.pk for row in rows]).update(present=False)


def _gpu_words(row: Gpu, changed: Mapping[str, object], info: GpuInfo) -> str:
    if not info.healthy:
        return info.fault
    fenced = changed.get("fault", row.fault)
    return wordings.FENCED() if fenced else wordings.WELL_AGAIN()


def _gpus_new(node: Node, found: Inventory, infos: Sequence[GpuInfo], now: datetime) -> dict[str, Gpu]:
    """Creates rows of GPUs never seen before, by UUID, with an event for each."""
    first_types: dict[str, CellType] = {}
    for info in infos:
        if info.model not in first_types:
            first_types[info.model] = gpu_type_before_topology(
                node=node, model=info.model, memory_mb=info.memory_mb, gpus=len(found.gpus)
            )
    made = Gpu.objects.bulk_create(
        Gpu(node=node, cell_type=first_types[info.model], uuid=info.uuid, **_gpu_columns(info)) for info in infos
    )
    found_words = [
        wordings.GPU_FOUND(index=info.index, node=node.name, model=info.model, memory=info.memory_mb) for info in infos
    ]
    node_events(node=node, code="gpu_found", messages=found_words, now=now)
    return {gpu.uuid: gpu for gpu in made}


def _gpu_columns(info: GpuInfo) -> dict[str, object]:
    details = {
        "pci": info.pci, "numa": info.numa, "nvlink_group": info.nvlink_group, "pcie_group": info.pcie_group,
        "driver": info.driver, "cuda": info.cuda,
    }  # fmt: skip
    return {"index": info.index, "model": info.model, "memory_mb": info.memory_mb, "details": details}


def _gpu_changes(row: Gpu, info: GpuInfo) -> dict[str, object]:
    told = {**_gpu_columns(info), **fence_columns(row, info), "present": True}
    return {name: value for name, value in told.items() if getattr(row, name) != value}
