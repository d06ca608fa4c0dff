"""A node's agent beside the portal: one release apart they work together."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.utils.translation import gettext, gettext_noop

from nodes.protocol.versions import release, releases_fit

UNREAD = "unread"
"""In a node's inventory until a report of it can be read again: why the last ones could not."""

_APART = gettext_noop(
    "Its agent is of version %(agent)s, this portal of %(portal)s: they work together where they are one release apart."
)
_UNREAD = gettext_noop(
    "What its agent reports cannot be read here: it is of another release than this portal (%(portal)s)."
)


def agent_wrong(inventory: dict[str, Any]) -> str:
    """What does not fit of its version; empty where it does, or nothing is known of it."""
    agent = str(inventory.get("agent") or "")
    if UNREAD in inventory:
        return gettext(_UNREAD) % {"portal": settings.VERSION}
    if not agent or releases_fit(agent, settings.VERSION):
        return ""
    return gettext(_APART) % {"agent": agent, "portal": settings.VERSION}


def agent_cure(inventory: dict[str, Any]) -> str:
    """What to do about it."""
    if release(str(inventory.get("agent") or "")) > release(settings.VERSION):
        return gettext("Bring the portal up to the agent's version.")
    return gettext("Install the agent of %(portal)s on that server; its tasks run on meanwhile.") % {
        "portal": settings.VERSION
    }


def agent_fault(inventory: dict[str, Any]) -> str:
    """Both; empty where it fits."""
    wrong = agent_wrong(inventory)
    return f"{wrong} {agent_cure(inventory)}" if wrong else ""
