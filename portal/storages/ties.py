"""Which servers are tied to a storage: those where an administrator accepted its folder, except those untied since;
why: ``docs/decisions/acceptance.md``. ``Node.ties`` holds, by storage id, what is known beyond acceptance: ``untied``;
``by_hand``, if an administrator tied it on the storage's page; ``proof``: whether it read what another server (``by``)
had written, when (``at_ms``), how often in a row (``tries``), and why it could not be tried."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from portal.hardware.acceptance import below
from portal.hardware.models import Node
from portal.storages.models import Storage

Ties = Mapping[str, Mapping[str, Any]]

SEEN, UNSEEN, UNTRIED = "seen", "unseen", "untried"
"""Results of a proof: it read the value; it read another or none; it could not be tried."""


def offers(root: str, roots: Collection[str], faults: Collection[str]) -> bool:
    """Whether a server that reports these folders, and faults of these storages (by root), offers the storage with this
    root. The one definition for pages, files, deletion, proofs, alerts and the scheduler."""
    return root not in faults and below(root, roots)


def is_untied(ties: Ties, storage: int) -> bool:
    """Whether a server with these ties was untied from the storage with that id."""
    return bool(ties.get(str(storage), {}).get("untied"))


def is_tied(node: Node, storage: Storage) -> bool:
    """Whether the server is tied to the storage, and so gets tasks that need it, by what administrators said."""
    roots = (node.accepted or {}).get("storages", ())
    return below(storage.root, roots) and not is_untied(node.ties, storage.pk)
