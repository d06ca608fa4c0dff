"""Which servers answer for a storage: those of which an administrator has accepted its folder, but for those that one
has untied from it. ``docs/decisions/acceptance.md`` says why. ``Node.ties`` holds by a storage's id what is said of the
two beside what was accepted: ``untied``; ``by_hand``, where an administrator tied it on the storage's page; ``proof``,
whether it read there what another server (``by``) had written, when (``at_ms``), so often in a row (``tries``), and why
nobody could try."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from portal.hardware.acceptance import below
from portal.hardware.models import Node
from portal.storages.models import Storage

Ties = Mapping[str, Mapping[str, Any]]

SEEN, UNSEEN, UNTRIED = "seen", "unseen", "untried"
"""What came of a proof: it read the value, or another or none, or nobody could try."""


def offers(root: str, roots: Collection[str], faults: Collection[str]) -> bool:
    """Whether a server that tells these folders, and of these storages (by root) that something is wrong with them,
    offers the storage of this root. Pages, files, deletion, proofs, alerts and the scheduler all mean this by it."""
    return root not in faults and below(root, roots)


def is_untied(ties: Ties, storage: int) -> bool:
    """Whether an administrator has untied the server that has these ties from the storage of that id."""
    return bool(ties.get(str(storage), {}).get("untied"))


def is_tied(node: Node, storage: Storage) -> bool:
    """Whether the server answers for the storage, and gets tasks that need it, as far as that is anybody's word."""
    roots = (node.accepted or {}).get("storages", ())
    return below(storage.root, roots) and not is_untied(node.ties, storage.pk)
