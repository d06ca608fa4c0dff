"""Acceptance of a server, or of claims beyond what was accepted, by an administrator (docs/decisions/acceptance.md)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext

from portal.accounts.audit import audit_write
from portal.accounts.models import Audited
from portal.common.errors import Conflict
from portal.hardware.acceptance import offer_joined
from portal.hardware.models import Node
from portal.hardware.services.nodes import node_cpu_tasks_write, node_event
from portal.joining.wordings import ACCEPTED, MAY_OFFER
from portal.storages.models import Storage


def node_accept(
    *, node: Node, claims: Mapping[str, Any] | None, actor: str, now: datetime, cpu_tasks: bool | None = None
) -> Node:
    """Accepts what the server claims; in force from its next report. ``claims``: what the administrator was shown
    (``offer_checked``), so that nothing claimed since is accepted; None: its present claims. ``cpu_tasks``: whether
    tasks without GPUs may be placed there; None: unchanged, on a pending node true unless a configuration said
    otherwise. Raises Conflict if there is nothing to accept."""
    with transaction.atomic():
        held = Node.objects.select_for_update(no_key=True).get(pk=node.pk)
        shown = held.claims if claims is None else claims
        if not shown:
            raise Conflict(_nothing(held))
        before, after = held.accepted, offer_joined(held.accepted, shown)
        if held.pending:  # it mounts them only once it is accepted
            exported = Storage.objects.exclude(export="").values_list("root", flat=True)
            after["storages"] = sorted({*after["storages"], *exported})
        Node.objects.filter(pk=held.pk).update(accepted=after, accepted_at=held.accepted_at or now, claims={})
        message = (ACCEPTED if before is None else MAY_OFFER)(node=held.name)
        node_event(node=held, code="accepted", message=message, now=now, actor=actor)
        if cpu_tasks is None:
            cpu_tasks = held.cpu_tasks
        said = {} if before is not None and cpu_tasks == held.cpu_tasks else {"cpu_tasks": cpu_tasks}
        node_cpu_tasks_write(node=held, cpu_tasks=cpu_tasks, actor=actor, now=now)
        audit_write(Audited.NODE_ACCEPT, actor=actor, target=held.name, now=now, before=before, after=after | said)
        held.accepted, held.claims = after, {}
    return held


def node_set_cpu_tasks(*, node: Node, cpu_tasks: bool, actor: str, now: datetime) -> Node:
    """Sets whether tasks without GPUs may be placed on the node; idempotent. Raises Conflict for a pending node, where
    acceptance decides it."""
    with transaction.atomic():
        held = Node.objects.select_for_update(no_key=True).get(pk=node.pk)
        if held.pending:
            words = gettext("%(node)s waits to be accepted; say then whether tasks without GPUs may run there.")
            raise Conflict(words % {"node": held.name})
        before, after = {"cpu_tasks": held.cpu_tasks}, {"cpu_tasks": cpu_tasks}
        if node_cpu_tasks_write(node=held, cpu_tasks=cpu_tasks, actor=actor, now=now):
            audit_write(Audited.NODE_CPU_TASKS, actor=actor, target=held.name, now=now, before=before, after=after)
    return held


def _nothing(node: Node) -> str:
    if node.accepted is None:
        words = gettext("%(node)s has not reported yet: there is nothing to accept. Start its agent first.")
    else:
        words = gettext("%(node)s claims nothing beyond what was accepted.")
    return words % {"node": node.name}
