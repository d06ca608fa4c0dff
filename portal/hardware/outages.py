"""Words for why an open node takes nothing new (its disk is full, it can carry out nothing, or tasks of several users
could not be started there), and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.formats import date_format
from django.utils.timezone import localtime
from django.utils.translation import gettext, gettext_noop

from nodes.protocol.states import NODE_FAULTS, Cause
from portal.hardware.acceptance import growth
from portal.hardware.health_words import health_words
from portal.hardware.models import Node
from portal.hardware.states import Stuck

FOUND_BY_NODE = "the node says: "
"""Prefix of a fence that the node's own report puts up."""

LATE = "not_ready_in_time"
"""Cause besides those of nodes: a task was not prepared there in time, nor any other meanwhile."""

OUT_CAUSES = NODE_FAULTS - {Cause.NO_SPACE, Cause.STORAGE_MISSING} | {LATE}
"""Start failures that speak against the node. It reports disk space and storages itself, and a storage that some nodes
lack is no fault of theirs."""

SHORT: Mapping[str, str] = {
    "pending": gettext_noop("It waits to be accepted."),
    "full": gettext_noop("Its disk for containers is full."),
    Stuck.ENGINE: gettext_noop("Its container engine does not answer."),
    Stuck.ORDERS: gettext_noop("It does not take its orders."),
    "out": gettext_noop("Tasks of several users could not be started on it."),
    "silent": gettext_noop("It fell silent together with most others."),
}
"""One line each, for the map and lists."""

_WORDS: Mapping[str, tuple[str, str]] = {
    Cause.DEVICE_FAULT: (
        gettext_noop("it could not give them their GPUs"),
        gettext_noop("Look at nvidia-smi and at the Container Toolkit (nvidia-ctk cdi list) there"),
    ),
    Cause.ENGINE_FAULT: (
        gettext_noop("its container engine failed"),
        gettext_noop("Look at the Docker Engine there (journalctl -u docker)"),
    ),
    Cause.PORT_TAKEN: (
        gettext_noop("ports of jobs were in use"),
        gettext_noop("See there what listens on them (ss -ltnp), or give its agent other ones (BERTH_NODE_PORT_RANGE)"),
    ),
    Cause.IMAGE_MISMATCH: (
        gettext_noop("it holds other images under the same names"),
        gettext_noop("Remove the images that were made there (docker images), or push them to a registry"),
    ),
    Cause.VANISHED: (
        gettext_noop("their containers were removed by somebody else"),
        gettext_noop("Find out who removes containers there (a clean-up by cron, for example)"),
    ),
    LATE: (
        gettext_noop("their containers were not ready in time"),
        gettext_noop("See whether its container engine answers and reaches the registry (docker pull there)"),
    ),
}
_STUCK: Mapping[str, tuple[str, str]] = {
    Stuck.ENGINE: (
        gettext_noop("Its container engine does not answer: it takes nothing new until it does."),
        gettext_noop(
            "Look at the Docker Engine there (systemctl status docker, journalctl -u docker), and start it again. Once "
            "it answers, new tasks are placed there by themselves."
        ),
    ),
    Stuck.ORDERS: (
        gettext_noop("It reports, and does not take its orders: it gets nothing new until it does."),
        gettext_noop(
            "Its agent's log says why (journalctl -u berth-node): where it knows another portal's key, let it join "
            "again; where its clock is wrong, set it right; where it says nothing of orders, start it again. If all "
            "nodes are so, look at the log of the portal's process reports."
        ),
    ),
}
_OTHER = (gettext_noop("it failed"), gettext_noop("Look at its agent's log (journalctl -u berth-node)"))


def pending_why(node: Node) -> str:
    """Why a pending node gets nothing; empty once it is accepted."""
    if node.accepted is not None:
        return ""
    return gettext("It is pending: it gets no task, no storage and no secret until an administrator accepts it.")


def growth_why(node: Node) -> str:
    """What an accepted node claims beyond what was accepted; empty if nothing."""
    if node.accepted is None or not node.claims:
        return ""
    words = ", ".join(growth(node.claims, node.accepted))
    return gettext("It claims more than was accepted, which does not count until it is confirmed: %(what)s.") % {
        "what": words
    }


def out_why(node: Node) -> str:
    """Why a node is out; empty if it is not."""
    if node.out_since is None:
        return ""
    words, _ = _WORDS.get(node.out_cause, _OTHER)
    return gettext("Tasks of several users could not be started here: %(why)s. It takes nothing new.") % {
        "why": gettext(words)
    }


def out_cure(node: Node) -> str:
    """The remedy for that."""
    _, cure = _WORDS.get(node.out_cause, _OTHER)
    told = {"cure": gettext(cure)}
    if node.trial_at is None:
        return gettext("%(cure)s, then put the node back on its page.") % told
    told["time"] = date_format(localtime(node.trial_at), "H:i")
    return gettext("%(cure)s, then put the node back on its page; at %(time)s it is tried again by itself.") % told


def full_why(node: Node) -> str:
    """Why a node with a full disk takes nothing; empty if it is not full."""
    if node.full_since is None:
        return ""
    percent = node.inventory.get("disk_free_percent", 0)
    return gettext(
        "Its disk for containers is full (%(percent)s %% free): it takes nothing new until there is room."
    ) % {"percent": percent}


def stuck_why(node: Node) -> str:
    """Why a stuck node takes nothing, with what it says itself; empty if it is not stuck."""
    if node.stuck_since is None:
        return ""
    said = gettext("The node says: %(why)s.") % {"why": health_words(node.stuck_words)} if node.stuck_words else ""
    return " ".join(filter(None, [gettext(_STUCK[node.stuck_cause][0]), said]))


def stuck_cure(node: Node) -> str:
    """The remedy for that; empty if not stuck."""
    return "" if node.stuck_since is None else gettext(_STUCK[node.stuck_cause][1])


def closed_why(node: Node) -> list[str]:
    """Every finding that closes it."""
    return list(filter(None, [pending_why(node), stuck_why(node), out_why(node), full_why(node)]))
