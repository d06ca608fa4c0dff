"""What each node shall have: its ``Desired``, built from rows, sealed, signed and sent."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable

from django.conf import settings
from django.db import transaction
from django.db.models import F

from nodes.protocol import (
    DESIRED_TASK,
    Desired,
    Envelope,
    Order,
    Phase,
    PortalKey,
    Stop,
    StopReason,
    encode,
    envelope_seal,
    node_queue,
    spec_digest,
)
from portal.clusters.models import Node
from portal.common.wake import task_send
from portal.jobs.models import TaskAttempt
from portal.jobs.services.specs import AttemptFacts, attempt_facts, container_spec

log = logging.getLogger(__name__)

EXPIRES_S = 15


def nodes_bump(node_ids: Iterable[int]) -> dict[int, int]:
    """Raise the generation of what these nodes shall have, in id order (so that two writers never deadlock);
    on commit each gets its new list at once. Returns node id -> new generation."""
    ids = sorted(set(node_ids))
    for node_id in ids:
        Node.objects.filter(pk=node_id).update(generation=F("generation") + 1)
    transaction.on_commit(lambda: _send_all(ids))
    return dict(Node.objects.filter(pk__in=ids).values_list("pk", "generation"))


def _send_all(ids: Iterable[int]) -> None:
    for node_id in ids:
        desired_send(node_id=node_id)


def desired_send(*, node_id: int, answers: int = 0, specs_known: Collection[str] = ()) -> bool:
    """Send the node its whole list; False when the broker is away (the next report asks again).

    ``specs_known``: hashes the node said it holds; specs it does not name go along, sealed.
    """
    node = Node.objects.get(pk=node_id)
    desired = desired_build(node=node, answers=answers, specs_known=specs_known)
    body = envelope_seal(
        settings.PORTAL_KEY,
        Envelope(
            sender="portal",
            to=node.name,
            kind="desired",
            expires_ms=int(time.time() * 1000) + EXPIRES_S * 1000,
            body=encode(desired).decode(),
        ),
    )
    return task_send(DESIRED_TASK, body, queue=node_queue(node.name), expires=EXPIRES_S)


def desired_build(*, node: Node, answers: int = 0, specs_known: Collection[str] = ()) -> Desired:
    """The node's list as its rows say."""
    rows = (
        TaskAttempt.objects.filter(node=node, removed_at__isnull=True)
        .select_related("task__role", "node", "job_attempt__job__user", "job_attempt__job__vc")
        .prefetch_related("allocations__leaf")
        .order_by("created_at", "id")
    )
    facts: dict[int, AttemptFacts] = {}
    orders = tuple(_order(row, facts, specs_known) for row in rows)
    return Desired(
        cluster=settings.CLUSTER_NAME,
        node=node.name,
        generation=node.generation,
        orders=orders,
        answers=answers,
        node_lost_after_s=settings.NODE_LOST_AFTER_S,
    )


def _order(row: TaskAttempt, facts: dict[int, AttemptFacts], specs_known: Collection[str]) -> Order:
    needs_spec = row.phase in {Phase.PREPARE, Phase.RUN}
    if needs_spec and not row.spec_hash:
        _spec_store(row, _shared(facts, row))
    return Order(
        attempt=str(row.pk),
        phase=Phase(row.phase),
        spec_hash=row.spec_hash,
        since=row.phase_since,
        archived=row.archived_to,
        spec=row.spec_sealed if needs_spec and row.spec_hash not in specs_known else None,
        stop=_stop(row),
    )


def _shared(facts: dict[int, AttemptFacts], row: TaskAttempt) -> AttemptFacts:
    if row.job_attempt_id not in facts:
        facts[row.job_attempt_id] = attempt_facts(row.job_attempt)
    return facts[row.job_attempt_id]


def _spec_store(row: TaskAttempt, shared: AttemptFacts) -> None:
    # Made once and kept: what it is made of (addresses, siblings' ports) may change while the container lives.
    encoded = encode(container_spec(shared, row))
    digest, sealed = spec_digest(encoded), PortalKey.seal_for(row.node.public_key, encoded)
    written = TaskAttempt.objects.filter(pk=row.pk, spec_hash="").update(spec_hash=digest, spec_sealed=sealed)
    if written:
        row.spec_hash, row.spec_sealed = digest, sealed
    else:
        row.refresh_from_db(fields=["spec_hash", "spec_sealed"])


def _stop(row: TaskAttempt) -> Stop | None:
    if not row.stop_reason:
        return None
    return Stop(reason=StopReason(row.stop_reason), grace_s=row.stop_grace_s, message=row.stop_message)
