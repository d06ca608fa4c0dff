"""Sentences that are stored of servers that join."""

from __future__ import annotations

from nodes.protocol.wording import Wording

NEW_KEY = Wording("new_key", "Node %(node)s has a new key; the old one is refused.")
ACCEPTED = Wording("accepted", "Node %(node)s is accepted.")
MAY_OFFER = Wording("may_offer", "Node %(node)s may offer what it claims.")
