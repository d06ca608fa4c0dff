"""Nodes and virtual clusters: joining, what reports say of the hardware, silence, intents, quotas."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q, Sum
from nacl.encoding import Base64Encoder
from nacl.signing import VerifyKey

from nodes.protocol import GpuInfo, Inventory, Report
from portal.accounts.models import User
from portal.clusters.clocks import clock_fault, skew_after
from portal.clusters.models import (
    CellType,
    Gpu,
    Membership,
    Node,
    NodeEvent,
    QuotaLine,
    ReportsLane,
    Sku,
    VcEvent,
    VirtualCluster,
)
from portal.clusters.states import HEALTH_MOVES, INTENT_MOVES, NodeHealth, NodeIntent
from portal.common.converters import Name
from portal.common.errors import Conflict, Fault, Invalid
from portal.common.live import announce
from portal.common.moves import sources
from portal.common.wake import scheduler_wake

NODE_NAME = re.compile(Name.regex)
LANE_GAP = timedelta(seconds=min(20, settings.NODE_LOST_AFTER_S / 2))
"""A pulse that comes this late means that reports were not taken in for a while: sooner than silence counts."""


def node_event(*, node: Node, code: str, message: str, now: datetime, actor: str = "", **data: object) -> None:
    """Write what happened to a node, inside the caller's transaction."""
    NodeEvent.objects.create(node=node, at=now, code=code, message=message, actor=actor, data=data)
    transaction.on_commit(lambda: announce("node", {"name": node.name}))
    transaction.on_commit(scheduler_wake)


def node_add(*, name: str, public_key: str, now: datetime, actor: str = "") -> Node:
    """Let a server with this key join; again with the same key: no change. Raises Conflict for another key, Invalid
    for what is no name or no key."""
    if faults := list(_joining_faults(name, public_key)):
        raise Invalid(faults)
    with transaction.atomic():
        node, made = Node.objects.get_or_create(name=name, defaults={"public_key": public_key})
        if not made and node.public_key != public_key:
            raise Conflict(f"A node named {name} is registered with another key. Remove it first, or choose a name.")
        if made:
            node_event(node=node, code="joined", message=f"Node {name} was registered.", now=now, actor=actor)
    return node


def _joining_faults(name: str, public_key: str) -> Iterator[Fault]:
    if not NODE_NAME.fullmatch(name):
        message = "A node's name has at most 64 letters, digits, dots, dashes and underscores, a letter or digit first."
        yield Fault("name", message, "invalid")
    try:
        VerifyKey(public_key.encode(), Base64Encoder)
    except (ValueError, TypeError):
        yield Fault("public_key", "This is no key; `python -m nodes key` prints it on the server.", "invalid")


def node_set_intent(*, node: Node, intent: str, reason: str, actor: str, now: datetime) -> Node:
    """Open, cordon or drain. Again: no change. Raises Conflict when the table knows no such move."""
    with transaction.atomic():
        rows = Node.objects.filter(pk=node.pk, intent__in=sources(INTENT_MOVES, intent))
        moved = rows.update(intent=intent, intent_reason=reason)
        node.refresh_from_db()
        if not moved and node.intent != intent:
            raise Conflict(f"Node {node.name} is {node.intent}; it cannot become {intent}.")
        if moved:
            words = f"Node {node.name} is {NodeIntent(intent).label.lower()}" + (f": {reason}" if reason else ".")
            node_event(node=node, code=f"intent_{intent}", message=words, now=now, actor=actor)
    return node


# ---------------------------------------------------------------- reports


def node_report(*, node: Node, report: Report, now: datetime) -> bool:
    """Take in what a report says of the node itself. False: an older or repeated one, to be left alone whole."""
    fresh = Q(boot__lt=report.boot) | Q(boot=report.boot, seq__lt=report.seq)
    skew = skew_after(before_ms=node.clock_skew_ms, sent_ms=report.sent_ms, now_ms=int(now.timestamp() * 1000))
    with transaction.atomic():
        taken = Node.objects.filter(fresh, pk=node.pk).update(
            boot=report.boot, seq=report.seq, last_report_at=now, clock_skew_ms=skew
        )
        if not taken:
            return False
        if node.health != NodeHealth.HEALTHY:
            _heard_again(node, now)
        _clock_take(node, skew, now)
        _inventory_take(node, report.inventory, now)
    return True


def _heard_again(node: Node, now: datetime) -> None:
    if _health_move(node, NodeHealth.HEALTHY, reason=""):
        words = "reports for the first time" if node.health == NodeHealth.UNKNOWN else "is back"
        node_event(node=node, code="healthy", message=f"Node {node.name} {words}.", now=now)


def _health_move(node: Node, to: NodeHealth, *, reason: str, **still: object) -> bool:
    """Move a node's health where the table allows it and the columns ``still`` are what they were."""
    rows = Node.objects.filter(pk=node.pk, health__in=sources(HEALTH_MOVES, to), **still)
    return bool(rows.update(health=to, health_reason=reason))


def _clock_take(node: Node, skew_ms: int, now: datetime) -> None:
    """Say once that its clock is wrong, and once that it is right again."""
    before, fault = node.clock_fault, clock_fault(skew_ms)
    if fault and not before:
        node_event(node=node, code="clock_wrong", message=f"Node {node.name}: {fault}", now=now, skew_ms=skew_ms)
    elif before and not fault:
        node_event(node=node, code="clock_right", message=f"The clock of node {node.name} is right again.", now=now)


def _inventory_take(node: Node, found: Inventory, now: datetime) -> None:
    told = {
        "cpu_milli": found.cpu_milli,
        "memory_mb": found.memory_mb,
        "address": found.address,
        "interface": found.interface,
        "runtime": found.runtime,
        "simulated": found.simulated,
        "port_first": found.port_first,
        "port_last": found.port_last,
        "storages": list(found.storages),
        "inventory": {
            "hostname": found.hostname,
            "engine": found.engine,
            "kernel": found.kernel,
            "agent": found.agent,
            "capabilities": list(found.capabilities),
        },
    }
    changed = {name: value for name, value in told.items() if getattr(node, name) != value}
    if changed:
        Node.objects.filter(pk=node.pk).update(**changed)
        transaction.on_commit(scheduler_wake)
    _gpus_take(node, found, now)


def _gpus_take(node: Node, found: Inventory, now: datetime) -> None:
    """New GPUs become leaf cells of their model's SKU; one that is not reported any more stays, not present."""
    rows = {gpu.uuid: gpu for gpu in Gpu.objects.filter(node=node)}
    for uuid in rows.keys() - {info.uuid for info in found.gpus}:
        if rows[uuid].present:
            Gpu.objects.filter(pk=rows[uuid].pk).update(present=False)
            message = f"GPU {rows[uuid].index} ({uuid}) of {node.name} is not there any more."
            node_event(node=node, code="gpu_gone", message=message, now=now)
    for info in found.gpus:
        row = rows.get(info.uuid)
        if row is None:
            cell_type = _leaf_type(node, found, info)
            Gpu.objects.create(node=node, cell_type=cell_type, **_gpu_columns(info), uuid=info.uuid)
            message = f"GPU {info.index} of {node.name}: {info.model}, {info.memory_mb} MB."
            node_event(node=node, code="gpu_found", message=message, now=now)
            Node.objects.filter(pk=node.pk).update(sku=cell_type.sku)
        elif changed := _gpu_changes(row, info):
            Gpu.objects.filter(pk=row.pk).update(**changed)
            if "fault" in changed or "present" in changed:
                words = info.fault or "is well again"
                node_event(node=node, code="gpu_changed", message=f"GPU {info.index} of {node.name}: {words}.", now=now)


def _gpu_columns(info: GpuInfo) -> dict[str, object]:
    details = {
        "pci": info.pci, "numa": info.numa, "nvlink_group": info.nvlink_group, "pcie_group": info.pcie_group,
        "mig": info.mig, "driver": info.driver, "cuda": info.cuda,
    }  # fmt: skip
    return {"index": info.index, "model": info.model, "memory_mb": info.memory_mb, "details": details}


FOUND_BY_NODE = "the node says: "


def _gpu_changes(row: Gpu, info: GpuInfo) -> dict[str, object]:
    told = {**_gpu_columns(info), "present": True}
    fault = "" if info.healthy else FOUND_BY_NODE + (info.fault or "the GPU is not healthy")
    if fault or row.fault.startswith(FOUND_BY_NODE):
        told["fault"] = fault  # a fence that somebody else put up stays
    return {name: value for name, value in told.items() if getattr(row, name) != value}


def sku_name(model: str) -> str:
    """A SKU's name from a GPU model: ``NVIDIA A100-SXM4-80GB`` -> ``A100-SXM4-80GB``."""
    words = model.removeprefix("NVIDIA ").strip() or "GPU"
    return "".join(letter if letter.isalnum() or letter in "-._" else "-" for letter in words)[:64]


def _leaf_type(node: Node, found: Inventory, info: GpuInfo) -> CellType:
    name, count = sku_name(info.model), max(len(found.gpus), 1)
    sku, _ = Sku.objects.get_or_create(
        name=name,
        defaults={
            "gpu_model": info.model,
            "gpu_memory_mb": info.memory_mb,
            "cpu_milli": found.cpu_milli // count,
            "memory_mb": found.memory_mb // count,
        },
    )
    return CellType.objects.get_or_create(name=name, defaults={"sku": sku})[0]


# ---------------------------------------------------------------- silence


def lane_pulse(*, now: datetime) -> ReportsLane:
    """A sign that reports are being taken in. After a gap the silence of nodes counts from now."""
    lane, _ = ReportsLane.objects.get_or_create(id=1, defaults={"open_since": now, "last_pulse_at": now})
    gap = now - lane.last_pulse_at > LANE_GAP or now < lane.last_pulse_at
    since = now if gap else lane.open_since
    ReportsLane.objects.filter(id=1, last_pulse_at=lane.last_pulse_at).update(open_since=since, last_pulse_at=now)
    lane.open_since, lane.last_pulse_at = since, now
    return lane


def nodes_lose(*, now: datetime) -> list[Node]:
    """Mark the nodes that were silent too long while the portal was taking reports in; those newly lost.

    When more than half of them fall silent together the fault is ours or the network's: none is lost.
    """
    lane = ReportsLane.objects.filter(id=1).first()
    if lane is None or now - lane.last_pulse_at > LANE_GAP:
        return []
    limit = timedelta(seconds=settings.NODE_LOST_AFTER_S)
    nodes = list(Node.objects.filter(health=NodeHealth.HEALTHY))
    silent = [node for node in nodes if now - max(node.last_report_at or lane.open_since, lane.open_since) > limit]
    if len(silent) * 2 > len(nodes):
        _silent_together(silent, len(nodes), now)
        return []
    return [node for node in silent if _lose(node, now)]


def _silent_together(silent: Collection[Node], count: int, now: datetime) -> None:
    message = (
        f"{len(silent)} of {count} nodes fell silent together; none is given up. "
        "Look at the network and at the broker's address."
    )
    for node in silent:
        with transaction.atomic():
            if Node.objects.filter(pk=node.pk).exclude(health_reason=message).update(health_reason=message):
                node_event(node=node, code="silent_together", message=message, now=now)


def _lose(node: Node, now: datetime) -> bool:
    seen = f"{node.last_report_at:%H:%M:%S}" if node.last_report_at else "never"
    message = f"No report since {seen}; given up after {settings.NODE_LOST_AFTER_S} s."
    with transaction.atomic():
        lost = _health_move(node, NodeHealth.LOST, reason=message, last_report_at=node.last_report_at)
        if lost:
            node_event(node=node, code="lost", message=f"Node {node.name} is lost. {message}", now=now)
    return lost


# ---------------------------------------------------------------- virtual clusters


def vc_create(*, name: str, description: str = "", now: datetime, actor: str = "") -> VirtualCluster:
    """A new virtual cluster without quota. Raises Conflict when the name is taken."""
    with transaction.atomic():
        vc, made = VirtualCluster.objects.get_or_create(name=name, defaults={"description": description})
        if not made:
            raise Conflict(f"There is a virtual cluster named {name} already.")
        VcEvent.objects.create(vc=vc, at=now, code="created", message=f"Virtual cluster {name}.", actor=actor)
    return vc


def quota_set(*, vc: VirtualCluster, cell_type: CellType, count: int, now: datetime, actor: str = "") -> None:
    """Guarantee ``count`` cells of a type. Raises Invalid when the cluster has not that many left to give."""
    with transaction.atomic():
        others = QuotaLine.objects.filter(cell_type=cell_type).exclude(vc=vc).aggregate(all=Sum("count"))["all"] or 0
        there = Gpu.objects.filter(cell_type=cell_type).count()
        if others + count > there:
            raise Invalid(
                [
                    Fault(
                        path=f"quota.{cell_type.name}",
                        message=f"{count} {cell_type.name} asked for; of {there} in the cluster {others} are given.",
                        code="too_large",
                    )
                ]
            )
        QuotaLine.objects.update_or_create(vc=vc, cell_type=cell_type, defaults={"count": count})
        message = f"Quota of {vc.name}: {count} {cell_type.name}."
        VcEvent.objects.create(vc=vc, at=now, code="quota", message=message, actor=actor)
        transaction.on_commit(scheduler_wake)


def member_set(*, vc: VirtualCluster, user: User, role: str, now: datetime, actor: str = "") -> None:
    """Give a user a role in the virtual cluster, in place of an earlier one."""
    with transaction.atomic():
        Membership.objects.update_or_create(vc=vc, user=user, defaults={"role": role})
        message = f"{user.username} is {role} of {vc.name}."
        VcEvent.objects.create(vc=vc, at=now, code="member", message=message, actor=actor)
