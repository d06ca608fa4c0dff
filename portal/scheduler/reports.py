"""Takes in a node's report: verifies the sender, applies node, containers and samples, answers."""

from __future__ import annotations

import logging
import re
import time
from datetime import datetime

import msgspec
from django.conf import settings

from nodes.protocol.envelope import EnvelopeExpired, EnvelopeRejected, envelope_open, envelope_sender
from nodes.protocol.messages import Report, decode
from portal.cluster.services.node_report import node_report, node_report_late, node_report_unread
from portal.common.prepared import Prepared, Slot
from portal.common.samples import sample_keep
from portal.hardware.models import Node
from portal.node_orders.services.desired import desired_send
from portal.node_orders.services.reports import containers_report

log = logging.getLogger(__name__)

_SENDER = Prepared(lambda: Node.objects.filter(name=Slot("name", str)).order_by()[:1])


def report_take(*, text: str, now: datetime) -> bool:
    """Take in a signed report and answer it with the node's ``Desired``. False: refused or expired."""
    try:
        sender = envelope_sender(text)
        node = _SENDER.first(name=sender)
        if node is None:
            log.warning("report of %r refused: no such node", sender)
            return False
        opened = _opened(text, node)
    except EnvelopeRejected as error:
        log.warning("report refused: %s", error)
        return False
    if opened is None:
        return False
    report, late = opened
    if report.cluster != settings.CLUSTER_NAME or report.node != node.name:
        log.warning("report of %s refused: it speaks for %s of %s", node.name, report.node, report.cluster)
        return False
    if late:
        if not node.clock_fault:  # else its skew is known, and shown with its remedy
            log.warning("report of %s refused: %s; set its clock right, or this server's", node.name, late)
        node_report_late(node=node, report=report, now=now)
        return False
    if not node_report(node=node, report=report, now=now):
        return False
    if node.pending:  # it was given nothing, so it has nothing to report
        return desired_send(node_id=node.pk, answers=report.seq)
    containers_report(node=node, generation=report.generation, containers=report.containers, now=now)
    if report.sample:
        ahead_ms = node.clock_skew_ms if node.clock_fault else 0
        now_ms = int(now.timestamp() * 1000)
        sample_keep(
            node=node.name, sample=report.sample, containers=report.containers, now_ms=now_ms, ahead_ms=ahead_ms
        )
    desired_send(node_id=node.pk, answers=report.seq, specs_known=report.specs_known)
    return True


def _opened(text: str, node: Node) -> tuple[Report, EnvelopeExpired | None] | None:
    """The node's report, and an EnvelopeExpired if it came too late; None, with a log line, if it cannot be decoded.
    Raises EnvelopeRejected."""
    now_ms = int(time.time() * 1000)
    expired = None
    try:
        body = envelope_open(text, public=node.public_key, sender=node.name, to="portal", kind="report", now_ms=now_ms)
    except EnvelopeExpired as late:
        body, expired = late.body, late
    try:
        return decode(text_storable(body), Report), expired
    except msgspec.MsgspecError as error:
        if node_report_unread(node=node, why=str(error)):
            log.warning("reports of %s cannot be read (%s): %s", node.name, error, node.agent_fault)
        return None


_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_NO_TEXT = re.compile(rb"\\u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2})")


def text_storable(body: bytes) -> bytes:
    """Replaces by U+FFFD what PostgreSQL stores in no text: NUL, which a program may print, and lone surrogates. Inside
    JSON both can be written only as escapes."""
    return _ESCAPE.sub(_escape_storable, body) if _NO_TEXT.search(body) else body


def _escape_storable(found: re.Match[bytes]) -> bytes:
    return rb"\ufffd" if _NO_TEXT.fullmatch(found[0]) else found[0]
