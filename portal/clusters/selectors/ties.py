"""Where tasks that need a storage may run, read each second by the scheduler, and what a storage's page shows."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from portal.clusters.models import Node, Storage
from portal.clusters.selectors.hardware import NodeRow
from portal.clusters.selectors.storages import storage_offered
from portal.clusters.ties import below, is_tied, is_untied
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
    """An accepted server and a storage. ``fault``: why it does not offer it now, in its own words."""

    node: Node
    tied: bool
    offered: bool
    fault: str


def storage_servers(*, storage: Storage) -> list[StorageServer]:
    """Every accepted server. One query."""
    columns = ("name", "health", "storages", "storage_faults", "accepted", "ties")
    rows = Node.objects.filter(accepted__isnull=False).only(*columns).order_by("name")
    return [
        StorageServer(
            node, is_tied(node, storage), storage_offered(node=node, storage=storage),
            node.storage_faults.get(storage.root, ""),
        )
        for node in rows
    ]  # fmt: skip
