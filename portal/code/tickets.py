"""Addresses at which one node may fetch one archive for one task attempt, for some minutes."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.core import signing

PATH = "node/code/"
LIVES_S = 600
"""An order with a fresh address comes every few seconds."""
_SALT = "berth.code"


@dataclass(frozen=True, slots=True)
class Ticket:
    """What an address gives: the code of a task attempt (its id) to the node that shall run it."""

    attempt: str
    node: str
    sha256: str


def ticket_address(ticket: Ticket) -> str:
    """The signed address."""
    signed = signing.dumps([ticket.attempt, ticket.node, ticket.sha256], salt=_SALT)
    return f"{settings.URL}/{PATH}{signed}"


def ticket_open(signed: str) -> Ticket | None:
    """What the address gives; None when it is not ours or too old."""
    try:
        return Ticket(*signing.loads(signed, salt=_SALT, max_age=LIVES_S))
    except (signing.BadSignature, TypeError):
        return None
