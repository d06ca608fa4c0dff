"""Where tasks that need a storage may run, read each second by the scheduler, and what a storage's page shows."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from portal.clusters.models import Node, Storage
from portal.clusters.selectors.hardware import NodeRow
from portal.clusters.selectors.storages import storage_offered
from portal.clusters.states import NodeHealth
from portal.clusters.ties import SEEN, below, is_tied, is_untied
from portal.common.row_versions import KeptRows


class StorageTies(NamedTuple):
    """Of storages by name: ``apart`` has the accepted nodes that are not tied to it, where there are any; ``nowhere``
    are those that no accepted node is tied to."""

    apart: dict[str, frozenset[str]]
    nowhere: frozenset[str]


_storages = KeptRows(Storage.objects.all, ["id", "name", "root"], key=int)


def storage_ties(nodes: Iterable[NodeRow]) -> StorageTies:
    """Of these nodes. One query, and one more where some storages have changed."""
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    for node in nodes:
        if node.accepted_roots is not None:
            alike[node.accepted_roots, node.ties].append(node.name)
    apart, nowhere = {}, set()
    for key, name, root in _storages.read().values():
        away = [names for (roots, ties), names in alike.items() if not _tied(roots, ties, key, root)]
        if away:
            apart[name] = frozenset(node for names in away for node in names)
        if alike and len(away) == len(alike):
            nowhere.add(name)
    return StorageTies(apart, frozenset(nowhere))


@lru_cache(maxsize=16_384)
def _tied(roots: str, ties: str, storage: int, root: str) -> bool:
    return below(root, json.loads(roots)) and not is_untied(json.loads(ties), storage)


class StorageServer(NamedTuple):
    """An accepted server and a storage. ``fault``: why it does not offer it now, in its own words. ``proof``: what came
    of having it read what the server ``proof_by`` wrote there; empty: it was not tried yet."""

    node: Node
    tied: bool
    offered: bool
    fault: str
    proof: str
    proof_by: str
    proof_why: str


def storage_servers(*, storage: Storage) -> list[StorageServer]:
    """Every accepted server. One query."""
    columns = ("name", "health", "storages", "storage_faults", "accepted", "ties")
    rows = Node.objects.filter(accepted__isnull=False).only(*columns).order_by("name")
    return [
        StorageServer(
            node, is_tied(node, storage), storage_offered(node=node, storage=storage),
            node.storage_faults.get(storage.root, ""), *_proof(node, storage),
        )
        for node in rows
    ]  # fmt: skip


def _proof(node: Node, storage: Storage) -> tuple[str, str, str]:
    told = node.ties.get(str(storage.pk), {}).get("proof", {})
    return told.get("result", ""), told.get("by", ""), told.get("why", "")


class ProofDue(NamedTuple):
    """``node`` shall read in the storage what ``writer`` writes there."""

    storage: Storage
    node: Node
    writer: Node


AGAIN = timedelta(minutes=5)


def proofs_due(*, now: datetime, limit: int) -> list[ProofDue]:
    """Ties that were not tried yet, or not seen for a while, of servers that are up and offer the storage. Who was
    accepted earlier writes: one that comes cannot have others untied. Two queries."""
    up = Node.objects.filter(accepted__isnull=False, health=NodeHealth.HEALTHY).exclude(storages=[])
    columns = ("name", "public_key", "boot", "storages", "storage_faults", "accepted", "ties")
    nodes = list(up.only(*columns).order_by("accepted_at", "pk"))
    found: list[ProofDue] = []
    for storage in Storage.objects.order_by("pk") if len(nodes) > 1 else ():
        here = [node for node in nodes if is_tied(node, storage) and storage_offered(node=node, storage=storage)]
        found += [ProofDue(storage, node, here[0]) for node in here[1:] if _is_due(node, storage, now)]
    found.sort(key=lambda due: _tried_ms(due.node, due.storage))
    return found[:limit]


def _is_due(node: Node, storage: Storage, now: datetime) -> bool:
    if _proof(node, storage)[0] == SEEN:
        return False
    ago_ms = now.timestamp() * 1000 - _tried_ms(node, storage)
    return not 0 <= ago_ms < AGAIN.total_seconds() * 1000


def _tried_ms(node: Node, storage: Storage) -> int:
    return int(node.ties.get(str(storage.pk), {}).get("proof", {}).get("at_ms", 0))
