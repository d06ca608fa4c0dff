"""Unknown containers: a node runs them for task attempts missing in the database, of a portal restored to an earlier
state, or of another one. They keep running, their GPUs stay fenced, until an administrator decides."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from nodes.protocol.messages import ContainerReport
from portal.accounts.audit import audit_write
from portal.accounts.models import Audited
from portal.common.errors import NotFound
from portal.common.told import GPUS
from portal.hardware.models import Gpu, Node
from portal.hardware.services.fences import fences_lift
from portal.hardware.services.generations import nodes_bump
from portal.hardware.services.nodes import node_event
from portal.node_orders import wordings

STRANGERS, NAME, FOLDER = 512, 200, 500
"""How many unknown containers of a node are recorded, and the length of their name and folder: each that comes or goes
is an event, and a flood of made-up ones would block the reports lane."""

UNKNOWN_CONTAINER = "a container of a task attempt this portal does not know runs on it: "


def strangers_take(*, node: Node, reports: Sequence[ContainerReport], now: datetime) -> None:
    """Record the unknown containers of a full report on the node's row, and fence their GPUs. ``node`` as it was when
    the report came: if there were and are none, no query is made."""
    if not reports and not node.strangers:
        return
    with transaction.atomic():
        held = Node.objects.select_for_update(no_key=True).only("name", "strangers").get(pk=node.pk)
        before: dict[str, Any] = held.strangers
        there = _noted(reports)
        after = {
            attempt: {"seen_at": now.isoformat(), **before.get(attempt, {}), **told} for attempt, told in there.items()
        }
        _fence({uuid: attempt for attempt, told in there.items() for uuid in told["gpus"]}, held)
        if after != before:
            Node.objects.filter(pk=held.pk).update(strangers=after)
            _tell(held, after.keys() - before.keys(), before.keys() - after.keys(), now)
        if len(reports) > len(after) == STRANGERS > len(before):
            words = wordings.TOO_MANY(node=held.name, number=f"{len(reports):,}", noted=STRANGERS)
            node_event(node=held, code="containers_too_many", message=words, now=now)


def _noted(reports: Sequence[ContainerReport]) -> dict[str, dict[str, Any]]:
    """Recorded containers by task attempt: if too many, those that hold GPUs come first, in a stable order."""
    named = [one for one in reports if len(one.attempt) <= NAME]
    named.sort(key=lambda one: (not one.gpus, one.attempt))
    return {one.attempt: {"gpus": sorted(one.gpus[:GPUS]), "folder": one.folder[:FOLDER]} for one in named[:STRANGERS]}


def _fence(attempts: dict[str, str], node: Node) -> None:
    for gpu in Gpu.objects.filter(node=node):
        fault = f"{UNKNOWN_CONTAINER}{attempts[gpu.uuid]}" if gpu.uuid in attempts else ""
        if fault and not gpu.fault:
            Gpu.objects.filter(pk=gpu.pk, fault="").update(fault=fault)
        elif not fault and gpu.fault.startswith(UNKNOWN_CONTAINER):
            fences_lift(Gpu.objects.filter(pk=gpu.pk, fault=gpu.fault))


def _tell(node: Node, come: set[str], gone: set[str], now: datetime) -> None:
    for attempt in sorted(come):
        words = wordings.UNKNOWN(node=node.name, attempt=attempt)
        node_event(node=node, code="container_unknown", message=words, now=now)
    for attempt in sorted(gone):
        words = wordings.GONE(attempt=attempt)
        node_event(node=node, code="container_unknown_gone", message=words, now=now)


def stranger_stop(*, node: Node, attempt: str, reason: str, actor: str, now: datetime) -> None:
    """Order an unknown container's stop, with the usual grace, and removal with its log. Again: no change. Raises
    NotFound if the node reports none of this name."""
    with transaction.atomic():
        held = Node.objects.select_for_update(no_key=True).only("name", "strangers").get(pk=node.pk)
        stranger = held.strangers.get(attempt)
        if stranger is None:
            raise NotFound("unknown container", attempt)
        if "stopped_by" in stranger:
            return
        stranger |= {"stopped_by": actor, "reason": reason}
        Node.objects.filter(pk=held.pk).update(strangers=held.strangers)
        nodes_bump([held.pk])
        words = wordings.STOPPED(attempt=attempt)
        if reason:
            words = wordings.STOPPED_FOR(attempt=attempt, why=reason)
        node_event(node=held, code="container_unknown_stop", message=words, now=now, actor=actor)
        told = {"attempt": attempt, "reason": reason}
        audit_write(Audited.NODE_CONTAINER, actor=actor, target=held.name, now=now, before=told)
