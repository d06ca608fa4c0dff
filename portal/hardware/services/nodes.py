"""Nodes: joining, and their intent as administrators set it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext

from nodes.protocol.envelope import public_key_check
from nodes.protocol.wording import stored
from portal.accounts.audit import audit_write
from portal.accounts.models import Audited
from portal.common.converters import Name
from portal.common.errors import Conflict, Fault, Invalid
from portal.common.live import announce
from portal.common.moves import sources
from portal.common.wake import scheduler_wake
from portal.hardware import wordings
from portal.hardware.models import Node, NodeEvent
from portal.hardware.services.redis_accounts import redis_accounts_soon
from portal.hardware.silences import silent_way_out
from portal.hardware.states import INTENT_MOVES, NodeIntent

NODE_NAME = re.compile(Name.regex)


def node_event(*, node: Node, code: str, message: str, now: datetime, actor: str = "", **data: object) -> None:
    """Record an event of a node, inside the caller's transaction."""
    node_events(node=node, code=code, messages=[message], now=now, actor=actor, **data)


def node_events(
    *, node: Node, code: str, messages: Sequence[str], now: datetime, actor: str = "", **data: object
) -> None:
    """Record several events of one kind for a node, inside the caller's transaction. Raises TypeError for a message
    that is not declared."""
    NodeEvent.objects.bulk_create(
        NodeEvent(node=node, at=now, code=code, data=data | stored(message), actor=actor) for message in messages
    )
    if messages:
        transaction.on_commit(lambda: announce("node", {"name": node.name}))
        transaction.on_commit(scheduler_wake)


def node_cpu_tasks_write(*, node: Node, cpu_tasks: bool, actor: str, now: datetime) -> bool:
    """Set whether tasks without GPUs may be placed on it, inside the caller's transaction. False: no change. Plans
    based on the old value are made anew; tasks that run there go on."""
    rows = Node.objects.filter(pk=node.pk).exclude(cpu_tasks=cpu_tasks)
    if not rows.update(cpu_tasks=cpu_tasks, placement_version=F("placement_version") + 1):
        return False
    message = (wordings.TAKES_CPU_TASKS if cpu_tasks else wordings.NO_CPU_TASKS)(node=node.name)
    node_event(node=node, code="cpu_tasks", message=message, now=now, actor=actor)
    node.cpu_tasks = cpu_tasks
    return True


def node_add(
    *, name: str, public_key: str, now: datetime, actor: str = "", accept: bool = False, cpu_tasks: bool = False
) -> Node:
    """Register a node with this key; again with the same key: no change. It is pending until accepted; with ``accept``
    its first report is accepted as it comes, and with ``cpu_tasks`` tasks without GPUs are placed there, too. Raises
    Conflict for another key, Invalid for a malformed name or key."""
    if faults := [*_joining_faults(name, public_key), *at_once_faults(accept, cpu_tasks)]:
        raise Invalid(faults)
    with transaction.atomic():
        node, made = Node.objects.get_or_create(name=name, defaults={"public_key": public_key})
        # A node named by a configuration beforehand has no key yet.
        first = not made and Node.objects.filter(pk=node.pk, public_key="").update(public_key=public_key)
        if not (made or first) and node.public_key != public_key:
            words = gettext("A node named %(name)s is registered with another key. Remove it first, or choose a name.")
            raise Conflict(f"{words % {'name': name}} {silent_way_out(node, now)}".strip())
        if made or first:
            if accept:
                Node.objects.filter(pk=node.pk).update(accept_first=True, cpu_tasks=cpu_tasks)
            node_event(node=node, code="joined", message=wordings.JOINED(node=name), now=now, actor=actor)
            audit_write(
                Audited.NODE_ADD, actor=actor, target=name, now=now,
                after={"public_key": public_key, "accept": accept, "cpu_tasks": cpu_tasks},
            )  # fmt: skip
            redis_accounts_soon()
    return node


def _joining_faults(name: str, public_key: str) -> Iterator[Fault]:
    if not NODE_NAME.fullmatch(name):
        message = gettext(
            "A node's name has at most 64 letters, digits, dots, dashes and underscores, a letter or digit first."
        )
        yield Fault("name", message, "invalid")
    try:
        public_key_check(public_key)
    except ValueError:
        yield Fault("public_key", gettext("This is no key; `python -m nodes key` prints it on the server."), "invalid")


def at_once_faults(accept: bool, cpu_tasks: bool) -> Iterator[Fault]:
    """Faults of a request to accept a node at once."""
    if cpu_tasks and not accept:
        message = gettext("This goes with accepting at once; otherwise it is asked when the server is accepted.")
        yield Fault("cpu_tasks", message, "invalid")


def node_set_intent(*, node: Node, intent: str, reason: str, actor: str, now: datetime) -> Node:
    """Open, cordon or drain; again: no change. Raises Conflict if the table has no such move."""
    with transaction.atomic():
        before = {"intent": node.intent, "reason": node.intent_reason}
        rows = Node.objects.filter(pk=node.pk, intent__in=sources(INTENT_MOVES, intent))
        moved = rows.update(intent=intent, intent_reason=reason)
        node.refresh_from_db()
        if not moved and node.intent != intent:
            is_now, wanted = (NodeIntent(one).label.lower() for one in (node.intent, intent))
            raise Conflict(
                gettext("Node %(node)s is %(intent)s; it cannot become %(wanted)s.")
                % {"node": node.name, "intent": is_now, "wanted": wanted}
            )
        if moved:
            words = wordings.INTENTS[NodeIntent(intent)](node=node.name)
            if reason:
                words = wordings.INTENTS_FOR[NodeIntent(intent)](node=node.name, why=reason)
            there = {"tasks": _tasks_there(node)} if intent == NodeIntent.DRAINING else {}
            node_event(node=node, code=f"intent_{intent}", message=words, now=now, actor=actor, **there)
            after = {"intent": intent, "reason": reason}
            audit_write(Audited.NODE_INTENT, actor=actor, target=node.name, now=now, before=before, after=after)
    return node


def _tasks_there(node: Node) -> int:
    """Number of tasks that hold resources on it; the node's page measures a drain by it."""
    return Node.objects.filter(pk=node.pk, task_attempts__isnull=False, task_attempts__released_at__isnull=True).count()
