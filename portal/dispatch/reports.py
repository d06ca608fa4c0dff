"""A node's report: who sent it, what it says of the node, what of its containers, and the answer."""

from __future__ import annotations

import logging
import time
from datetime import datetime

import msgspec
from django.conf import settings

from nodes.protocol import EnvelopeExpired, EnvelopeRejected, Report, decode, envelope_open, envelope_sender
from portal.clusters.models import Node
from portal.clusters.services import node_report, node_report_late, node_report_unread
from portal.common.samples import sample_keep
from portal.jobs.services import containers_report, desired_send

log = logging.getLogger(__name__)


def report_take(*, text: str, now: datetime) -> bool:
    """Take a signed report in and answer it with the node's ``Desired``. False: refused or out of date."""
    try:
        sender = envelope_sender(text)
        node = Node.objects.filter(name=sender).first()
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
        if not node.clock_fault:  # known by then, and told with its cure
            log.warning("report of %s refused: %s; set its clock right, or this server's", node.name, late)
        node_report_late(node=node, report=report, now=now)
        return False
    if not node_report(node=node, report=report, now=now):
        return False
    containers_report(node=node, generation=report.generation, containers=report.containers, now=now)
    if report.sample:
        ahead_ms = node.clock_skew_ms if node.clock_fault else 0
        sample_keep(node=node.name, sample=report.sample, containers=report.containers, ahead_ms=ahead_ms)
    desired_send(node_id=node.pk, answers=report.seq, specs_known=report.specs_known)
    return True


def _opened(text: str, node: Node) -> tuple[Report, EnvelopeExpired | None] | None:
    """What the node signed and, where that came too late, what says so; None for what cannot be read, which is told.
    Raises EnvelopeRejected."""
    now_ms = int(time.time() * 1000)
    expired = None
    try:
        body = envelope_open(text, public=node.public_key, sender=node.name, to="portal", kind="report", now_ms=now_ms)
    except EnvelopeExpired as late:
        body, expired = late.body, late
    try:
        return decode(body, Report), expired
    except msgspec.MsgspecError as error:
        if node_report_unread(node=node, why=str(error)):
            log.warning("reports of %s cannot be read (%s): %s", node.name, error, node.agent_fault)
        return None
