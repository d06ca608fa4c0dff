"""Sentences that are stored of storages."""

from __future__ import annotations

from nodes.protocol.wording import Wording

TIED = Wording("tied", "Node %(node)s is tied to the storage %(storage)s.")
UNTIED = Wording("untied", "Node %(node)s is untied from the storage %(storage)s.")
UNSEEN = Wording(
    "untied_unseen",
    "Node %(node)s does not see what other servers write in %(storage)s: it is untied from it.",
)
