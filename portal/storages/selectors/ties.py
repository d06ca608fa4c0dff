"""Where tasks that need a storage may run, read every second by the scheduler; and the servers on a storage's page."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from portal.common.prepared import Prepared
from portal.hardware.acceptance import below
from portal.hardware.models import Node
from portal.hardware.selectors.leaf_cells import NodeRow
from portal.hardware.states import NodeHealth
from portal.storages.models import Storage
from portal.storages.selectors.storages import NO_FOLDER, storage_offered
from portal.storages.ties import SEEN, is_tied, is_untied, offers


class StorageTies(NamedTuple):
    """Accepted nodes on which a job cannot have a storage, by its name: ``apart``: those not tied to it, or not
    offering it now, if any; ``away``: those of them that are tied, each with why it does not offer it. ``folders``: the
    storage of job folders, which every job needs; empty if there is none."""

    apart: Mapping[str, frozenset[str]] = {}
    away: Mapping[str, Mapping[str, str]] = {}
    folders: str = ""
    accepted: frozenset[str] = frozenset()
    healthy: frozenset[str] = frozenset()


_STORAGES = Prepared(lambda: Storage.objects.order_by("pk").values_list("id", "name", "root", "jobs"))


def storage_ties(nodes: Iterable[NodeRow]) -> StorageTies:
    """The ties of these nodes. One query."""
    alike: dict[tuple[str, str, str, str], list[str]] = defaultdict(list)
    accepted = [node for node in nodes if node.accepted_roots is not None]
    for node in accepted:
        alike[node.accepted_roots or "", node.ties, node.storages, node.storage_faults].append(node.name)
    apart, away, folders = {}, {}, ""
    for key, name, root, jobs in _STORAGES():
        told = [(_lacks(*said, key, root), names) for said, names in alike.items()]
        if lacking := frozenset(node for why, names in told if why is not None for node in names):
            apart[name] = lacking
            away[name] = {node: why for why, names in told if why for node in names}
        folders = name if jobs else folders
    healthy = frozenset(node.name for node in accepted if node.health == NodeHealth.HEALTHY)
    return StorageTies(apart, away, folders, frozenset(node.name for node in accepted), healthy)


@lru_cache(maxsize=16_384)
def _lacks(roots: str, ties: str, told: str, faults: str, storage: int, root: str) -> str | None:
    """Why a node with these reports lacks a storage: empty if it is not tied to it, None if it has it."""
    if not below(root, json.loads(roots)) or is_untied(json.loads(ties), storage):
        return ""
    wrong = json.loads(faults)
    return None if offers(root, json.loads(told), wrong) else wrong.get(root) or NO_FOLDER


class StorageServer(NamedTuple):
    """An accepted server's state at a storage. ``fault``: why it does not offer it now, in its own words. ``proof``:
    the result of reading what the server ``proof_by`` wrote; empty: not tried yet."""

    node: Node
    tied: bool
    offered: bool
    fault: str
    proof: str
    proof_by: str
    proof_why: str


def storage_servers(*, storage: Storage) -> list[StorageServer]:
    """Every accepted server, for this storage. One query."""
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
    """A proof to try: ``node`` reads in the storage what ``writer`` writes there."""

    storage: Storage
    node: Node
    writer: Node


AGAIN = timedelta(minutes=5)


def proofs_due(*, now: datetime, limit: int) -> list[ProofDue]:
    """Ties not proven yet, and not tried for a while, of healthy servers that offer the storage. The server accepted
    earliest writes, so that a newcomer cannot have others untied. Two queries."""
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
