"""Tells nodes that their orders changed. A node's generation counts the changes of its list of orders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from django.db import transaction
from django.db.models import F

from portal.common.prepared import Among, Prepared
from portal.hardware.models import Node

Send = Callable[[Sequence[int]], None]
"""Sends the nodes with these ids their lists of orders."""
_senders: list[Send] = []


def sends_lists(send: Send) -> Send:
    """Registers a function to be called with the sorted node ids after each commit that changed orders."""
    _senders.append(send)
    return send


class _Changed:
    """Nodes whose lists changed and are not sent yet; with `together` they wait for the end of a block."""

    def __init__(self) -> None:
        self.nodes: set[int] = set()
        self.together = False

    def send(self) -> None:
        if self.together:
            return
        # Nodes of a rolled-back transaction may be included: a superfluous list does no harm.
        ids = sorted(self.nodes)
        self.nodes.clear()
        for send in _senders if ids else ():
            send(ids)


_changed: ContextVar[_Changed] = ContextVar("nodes whose orders changed")


def _here() -> _Changed:
    """This context's changed nodes."""
    if (found := _changed.get(None)) is None:
        _changed.set(found := _Changed())
    return found


def nodes_hold(node_ids: Iterable[int]) -> None:
    """Lock several nodes' rows until the transaction ends, in the order of ids to avoid deadlocks."""
    ids = set(node_ids)
    if len(ids) > 1:
        _HELD(nodes=ids)


_HELD = Prepared(
    lambda: (
        Node.objects.select_for_update(no_key=True)
        .filter(Among("id", "nodes"))
        .order_by("pk")
        .values_list("pk", "generation")
    )
)


def nodes_bump(node_ids: Iterable[int]) -> dict[int, int]:
    """Raise the generation of these nodes' orders; on commit each is sent its new list, once however often it changed.
    Returns node id -> new generation."""
    if not (ids := {*node_ids}):
        return {}
    held = dict(_HELD(nodes=ids))
    Node.objects.filter(pk__in=held).update(generation=F("generation") + 1)
    changed = _here()
    changed.nodes.update(held)
    transaction.on_commit(changed.send)
    return {node: generation + 1 for node, generation in held.items()}


@contextmanager
def orders_together() -> Iterator[None]:
    """Batches the lists changed by this block's transactions: each is sent once, at its end. If the process dies
    before, the nodes' next reports ask for them."""
    changed = _here()
    changed.together = True
    try:
        yield
    finally:
        changed.together = False
    changed.send()
