"""Stuck nodes report but can carry out nothing. They get nothing new until they can; what runs there goes on."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from nodes.protocol.messages import Inventory, Report
from portal.hardware import wordings
from portal.hardware.models import Node
from portal.hardware.services.nodes import node_event
from portal.hardware.silences import heard_without_gap
from portal.hardware.states import Stuck

BEHIND_AFTER = timedelta(seconds=90)
"""Every report is answered with the whole list, so the node should have it one report later. A report may be queued for
30 s before it is taken in, and an agent that has just started waits a minute for its container engine before it reports
it away."""


class Due(NamedTuple):
    """Two columns of ``Node``."""

    due: int
    due_since: datetime | None


def due_after(node: Node, report: Report, now: datetime) -> Due:
    """The generation the node has yet to take, and since when. A later one counts only once it has taken that one, so a
    list that changes all the time is never due for long.

    The time counts only while the node could have taken it: without a gap between its reports (a worker, a broker or a
    portal that was away), within one life of its agent, and while its container engine answers.
    """
    if report.generation >= node.generation:
        return Due(0, None)
    waited = node.due_since is not None and report.generation < node.due and not report.inventory.engine_away
    if waited and (node.stuck_cause == Stuck.ORDERS or _goes_on(node, report, now)):
        return Due(node.due, node.due_since)
    return Due(node.generation, now)


def _goes_on(node: Node, report: Report, now: datetime) -> bool:
    return report.boot == node.boot and heard_without_gap(node, now)


def stuck_columns(node: Node, found: Inventory, now: datetime) -> dict[str, object]:
    """The node's columns after a report. Beginning and end are recorded as events, once each."""
    cause = _cause(node, found, now)
    if cause != node.stuck_cause:
        _tell(node, cause, now)
    since = node.stuck_since if cause == node.stuck_cause else now if cause else None
    return {"stuck_cause": cause, "stuck_since": since, "stuck_words": found.engine_away}


def _cause(node: Node, found: Inventory, now: datetime) -> str:
    if found.engine_away:
        return Stuck.ENGINE
    behind = node.due_since is not None and now - node.due_since > BEHIND_AFTER
    return Stuck.ORDERS if behind else ""


def _tell(node: Node, cause: str, now: datetime) -> None:
    """Records events. An absent engine says nothing of orders, so it ends only itself."""
    if node.stuck_cause == Stuck.ENGINE:
        message = wordings.ENGINE_BACK(node=node.name)
        node_event(node=node, code="engine_back", message=message, now=now)
    elif node.stuck_cause == Stuck.ORDERS and not cause:
        node_event(node=node, code="orders_taken", message=wordings.ORDERS_TAKEN(node=node.name), now=now)
    if cause == Stuck.ENGINE:
        message = wordings.ENGINE_AWAY(node=node.name)
        node_event(node=node, code="engine_away", message=message, now=now)
    elif cause == Stuck.ORDERS:
        message = wordings.ORDERS_LEFT(node=node.name)
        node_event(node=node, code="orders_left", message=message, now=now)
