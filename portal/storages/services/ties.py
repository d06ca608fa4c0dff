"""Ties between servers and storages, made and removed by administrators and proofs (docs/decisions/acceptance.md)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext

from portal.accounts.audit import audit_write
from portal.accounts.models import Audited
from portal.common.errors import Conflict, Fault, Invalid
from portal.hardware.acceptance import below
from portal.hardware.inventories import SENTENCE
from portal.hardware.models import Node
from portal.hardware.services.nodes import node_event
from portal.storages import wordings
from portal.storages.models import Storage
from portal.storages.ties import UNSEEN, is_tied, is_untied

TRIES = 3
"""Failed proofs in a row before a server is untied: a file system may lag behind."""


def storage_tie(*, storage: Storage, node: Node, tied: bool, actor: str, now: datetime) -> Node:
    """Ties the server to the storage or unties it: whether it gets tasks that need it; running ones go on. Idempotent.
    Raises Conflict for a pending server."""
    with transaction.atomic():
        held = Node.objects.select_for_update(no_key=True).get(pk=node.pk)
        if held.pending:
            words = gettext("%(node)s waits to be accepted; until then it answers for no storage.")
            raise Conflict(words % {"node": held.name})
        if is_tied(held, storage) != tied:
            tie_write(held, storage, tied)
            if tied:  # whatever proofs said: an administrator knows better
                _ties_put(held, storage, {"by_hand": True})
            message = (wordings.TIED if tied else wordings.UNTIED)(node=held.name, storage=storage.name)
            node_event(node=held, code="tied" if tied else "untied", message=message, now=now, actor=actor)
            before, after = {"node": held.name, "tied": not tied}, {"node": held.name, "tied": tied}
            audit_write(Audited.STORAGE_TIE, actor=actor, target=storage.name, now=now, before=before, after=after)
    return held


def tie_write(node: Node, storage: Storage, tied: bool) -> None:
    """Stores a tie, in a transaction that holds the node's row lock. Tying accepts the storage's folder. Placements
    planned with the old state are planned anew."""
    accepted, ties = dict(node.accepted or {}), dict(node.ties)
    proof = ties.pop(str(storage.pk), {}).get("proof")
    if not tied:
        ties[str(storage.pk)] = {"untied": True, **({"proof": proof} if proof else {})}
    elif not below(storage.root, accepted["storages"]):
        accepted["storages"] = sorted({*accepted["storages"], storage.root})
    node.accepted, node.ties = accepted, ties
    rows = Node.objects.filter(pk=node.pk)
    rows.update(accepted=accepted, ties=ties, placement_version=F("placement_version") + 1)


def _ties_put(node: Node, storage: Storage, said: Mapping[str, Any]) -> None:
    others = {key: one for key, one in node.ties.items() if key != str(storage.pk)}
    node.ties = others | ({str(storage.pk): dict(said)} if said else {})
    Node.objects.filter(pk=node.pk).update(ties=node.ties)


def tie_proven(*, storage: Storage, node: Node, by: str, result: str, why: str, now: datetime) -> None:
    """Records a proof's result: whether the server read what the server ``by`` had written. A server that repeatedly
    failed, at a storage that all servers mount from one export, is untied, unless an administrator tied it by hand. A
    result is dropped if the storage has moved meanwhile."""
    with transaction.atomic():
        place = {"root": storage.root, "kind": storage.kind, "export": storage.export}
        if not Storage.objects.select_for_update(no_key=True).filter(pk=storage.pk, **place).exists():
            return
        held = Node.objects.select_for_update(no_key=True).get(pk=node.pk)
        said = dict(held.ties.get(str(storage.pk), {}))
        before = said.get("proof", {})
        tries = before.get("tries", 0) + 1 if before.get("result") == result else 1
        said["proof"] = {
            "result": result, "by": by, "at_ms": int(now.timestamp() * 1000), "tries": tries, "why": why[:SENTENCE],
        }  # fmt: skip
        _ties_put(held, storage, said)
        unproven = result == UNSEEN and tries >= TRIES and bool(storage.export) and not said.get("by_hand")
        if unproven and is_tied(held, storage):
            tie_write(held, storage, False)
            message = wordings.UNSEEN(node=held.name, storage=storage.name)
            node_event(node=held, code="untied", message=message, now=now)
            before, after = {"node": held.name, "tied": True}, {"node": held.name, "tied": False, "proof": UNSEEN}
            audit_write(Audited.STORAGE_TIE, actor="", target=storage.name, now=now, before=before, after=after)


def server_faults(names: Collection[str]) -> list[Fault]:
    """Faults for names that no accepted server has."""
    known = Node.objects.filter(name__in=names, accepted__isnull=False).values_list("name", flat=True)
    missing = sorted(set(names) - set(known))
    words = gettext("no accepted server is named %(name)s")
    return [Fault("servers", words % {"name": name[:80]}, "unknown") for name in missing]


def storage_tie_new(storage: Storage, names: Sequence[str] | None) -> list[str]:
    """Ties a new or moved storage, in its transaction, to exactly these servers. If none is named: with an export, to
    all that nobody untied, since they mount it for the portal; else to those whose accepted folders contain it. Returns
    their names. Raises Invalid."""
    if faults := server_faults(names or ()):
        raise Invalid(faults)
    tied = []
    for node in Node.objects.select_for_update(no_key=True).filter(accepted__isnull=False).order_by("pk"):
        wanted = node.name in names if names else is_tied(node, storage) or _mounts(node, storage)
        if wanted != is_tied(node, storage):
            tie_write(node, storage, wanted)
        tied += [node.name] if wanted else []
    return sorted(tied)


def storage_proofs_forget(storage: Storage) -> None:
    """Drops a moved storage's proofs, in its transaction: nobody has seen its new location yet."""
    key = str(storage.pk)
    for node in Node.objects.select_for_update(no_key=True).filter(accepted__isnull=False).order_by("pk"):
        said = dict(node.ties.get(key, {}))
        if said.pop("proof", None):
            _ties_put(node, storage, said)


def _mounts(node: Node, storage: Storage) -> bool:
    return bool(storage.export) and not is_untied(node.ties, storage.pk)
