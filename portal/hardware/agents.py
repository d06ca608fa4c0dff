"""A node's agent against the portal: one release apart they work together."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.utils.translation import gettext, gettext_noop

from nodes.protocol.versions import release, releases_fit

UNREAD = "unread"
"""Key in a node's inventory: why its last reports could not be decoded; gone once one can be."""

_APART = gettext_noop(
    "Its agent is of version %(agent)s, this portal of %(portal)s: they work together where they are one release apart."
)
_UNREAD = gettext_noop(
    "What its agent reports cannot be read here: it is of another release than this portal (%(portal)s)."
)


def agent_wrong(inventory: dict[str, Any]) -> str:
    """Why the agent's version does not fit; empty if it does or is unknown."""
    agent = str(inventory.get("agent") or "")
    if UNREAD in inventory:
        return gettext(_UNREAD) % {"portal": settings.VERSION}
    if not agent or releases_fit(agent, settings.VERSION):
        return ""
    return gettext(_APART) % {"agent": agent, "portal": settings.VERSION}


def agent_cure(inventory: dict[str, Any]) -> str:
    """The cure for that."""
    if release(str(inventory.get("agent") or "")) > release(settings.VERSION):
        return gettext("Bring the portal up to the agent's version.")
    return gettext("Install the agent of %(portal)s on that server; its tasks run on meanwhile.") % {
        "portal": settings.VERSION
    }


def agent_fault(inventory: dict[str, Any]) -> str:
    """Fault and cure, or empty."""
    wrong = agent_wrong(inventory)
    return f"{wrong} {agent_cure(inventory)}" if wrong else ""
