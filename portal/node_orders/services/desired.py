"""A node's orders as ``Desired``: built from rows, sealed, signed and sent."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BigIntegerField, Func, QuerySet, Sum
from django.db.models.sql.compiler import SQLCompiler

from nodes.protocol.envelope import Envelope, PortalKey, envelope_seal
from nodes.protocol.messages import Desired, Order, SshAccess, Stop, StorageWish, encode
from nodes.protocol.names import DESIRED_TASK, node_queue
from nodes.protocol.parking import GpuWish
from nodes.protocol.states import ContainerState, Phase, StopReason, reached
from portal.code.tickets import Ticket, ticket_address
from portal.common.prepared import Among, Prepared
from portal.common.wake import task_send
from portal.hardware.models import Node
from portal.hardware.services.generations import sends_lists
from portal.jobs.models import JobAttempt, TaskAttempt
from portal.jobs.services.attempts import LIVE
from portal.node_orders.services.container_spec import NEEDS_SPEC
from portal.node_orders.services.sealed_specs import specs_store
from portal.node_orders.services.ssh import ssh_accesses
from portal.parking.models import OFF
from portal.storages.selectors.storages import storage_wishes, storages_granted

log = logging.getLogger(__name__)

EXPIRES_S = 15
AT_ONCE = 64 << 20
"""Bytes of specs read at once for several nodes' lists: those of a job with thousands of tasks total a gigabyte, since
each names all of them."""
SENT_TO = (
    *("name", "public_key", "generation", "interface", "storages", "storage_faults", "strangers", "accepted"), "ties",
)  # fmt: skip
"""Columns of a node for its list of orders."""


@sends_lists
def lists_send(nodes: Sequence[int]) -> None:
    """Send these nodes their lists, one by one: they are large."""
    for node, desired in desired_lists(nodes=_SENT(nodes=nodes)):
        _send(node, desired)


_SENT = Prepared(lambda: Node.objects.filter(Among("id", "nodes")).only(*SENT_TO).order_by("pk"))


def desired_send(*, node_id: int, answers: int = 0, specs_known: Collection[str] = ()) -> bool:
    """Send the node its whole list; False if the broker is away (the next report asks again).

    ``specs_known``: hashes of specs the node says it holds; the others go along, sealed.
    """
    (node,) = _SENT(nodes=[node_id])
    return _send(node, desired_build(node=node, answers=answers, specs_known=specs_known))


def specs_complete(*, attempts: Collection[JobAttempt]) -> dict[int, str]:
    """Make specs that these attempts' tasks still lack. Returns the reason by attempt id where one cannot be made. One
    query if none is lacking."""
    there = TaskAttempt.objects.filter(job_attempt__in=attempts, removed_at__isnull=True)
    lacking = there.filter(phase__in=NEEDS_SPEC, spec_hash="")
    ids = set(lacking.order_by().values_list("node", flat=True))
    return specs_store(nodes=Node.objects.only(*SENT_TO).in_bulk(ids), of=attempts) if ids else {}


def _send(node: Node, desired: Desired) -> bool:
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
    """The node's list, from its rows."""
    ((_, desired),) = desired_lists(nodes=[node], answers=answers, specs_known=specs_known)
    return desired


def desired_lists(
    *, nodes: Sequence[Node], answers: int = 0, specs_known: Collection[str] = ()
) -> Iterator[tuple[Node, Desired]]:
    """Lists of several nodes; a fixed number of queries, however many nodes and tasks there are, plus a few for each
    ``AT_ONCE``."""
    # Tasks whose spec cannot be made are left out: the cycle ends their attempt.
    specs_store(nodes={node.pk: node for node in nodes})
    granted = storages_granted()
    for several in _parts(nodes):
        orders = _orders(several, specs_known)
        for node in several:
            yield node, _desired(node, orders[node.pk], answers, storage_wishes(node=node, granted=granted))


class _Bytes(Func):
    """Length of a text; the database reads nothing else."""

    function, output_field = "OCTET_LENGTH", BigIntegerField()

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **more: Any) -> Any:
        return self.as_sql(compiler, connection, function="LENGTH", **more)


def _parts(nodes: Sequence[Node]) -> Iterator[list[Node]]:
    """The nodes in order, batched up to ``AT_ONCE`` bytes of specs; each batch has at least one."""
    if len(nodes) < 2:
        yield [*nodes]
        return
    sizes = dict(_SIZES(nodes=[node.pk for node in nodes]))
    part, taken = list[Node](), 0
    for node in nodes:
        size = sizes.get(node.pk) or 0
        if part and taken + size > AT_ONCE:
            yield part
            part, taken = [], 0
        part.append(node)
        taken += size
    yield part


def _sizes() -> QuerySet[TaskAttempt, tuple[int, int]]:
    rows = TaskAttempt.objects.filter(Among("node", "nodes"), removed_at=None).exclude(phase=Phase.REMOVE).order_by()
    return rows.values_list("node").annotate(size=Sum(_Bytes("spec_sealed")))


_SIZES = Prepared(_sizes)


def _orders(nodes: Sequence[Node], specs_known: Collection[str]) -> dict[int, list[Order]]:
    """Each node's orders, by its id."""
    by_node: dict[int, list[Order]] = defaultdict(list)
    by_id = {node.pk: node for node in nodes}
    rows = [(first, _Row(*rest)) for first, *rest in _ROWS(nodes=by_id)]
    ssh = ssh_accesses(row.id for _, row in rows if row.ssh and row.phase in NEEDS_SPEC)
    peers = _peers({row.job_attempt for _, row in rows if row.least is not None and row.phase in NEEDS_SPEC})
    for node_id, row in rows:
        if row.phase in NEEDS_SPEC and not row.spec_hash:
            continue  # none possible, or committed since the specs were stored: then its own list follows
        by_node[node_id].append(_order(row, by_id[node_id], specs_known, ssh.get(row.id), peers))
    return by_node


class _Row(NamedTuple):
    """Columns of a task attempt for its order."""

    id: UUID
    phase: str
    phase_since: int
    spec_hash: str
    spec_sealed: str
    archived_to: int
    state: str
    stop_reason: str
    stop_grace_s: int
    stop_message: str
    ssh: dict[str, str]
    job_attempt: int
    role: int
    least: int | None  # of an elastic role
    turn: int | None
    parking: str | None
    code: str | None  # SHA-256 of the code that comes with its job


def _rows() -> QuerySet[TaskAttempt, Any]:
    there = TaskAttempt.objects.filter(Among("node", "nodes"), removed_at=None).order_by("created_at", "id")
    of_role = ("job_attempt_id", "task__role_id", "task__role__least")
    others = (*of_role, "parking__turn", "parking__state", "job_attempt__job__code__sha256")
    return there.values_list("node_id", *_Row._fields[: -len(others)], *others)


_ROWS = Prepared(_rows)
_PEERS = Prepared(
    lambda: (
        TaskAttempt.objects.filter(LIVE, Among("job_attempt", "attempts"), phase__in=NEEDS_SPEC)
        .order_by("task__index")
        .values_list("job_attempt_id", "task__role_id", "node__address", "ports")
    )
)


def _peers(attempts: Collection[int]) -> dict[tuple[int, int], tuple[str, ...]]:
    """Where the tasks of these elastic attempts are that are to run, by attempt and role. One query; none without."""
    found: dict[tuple[int, int], list[str]] = defaultdict(list)
    for attempt, role, address, ports in _PEERS(attempts=attempts) if attempts else ():
        found[attempt, role].append(f"{address}:{ports['http'][0]}")
    return {key: tuple(one) for key, one in found.items()}


def _desired(node: Node, orders: Iterable[Order], answers: int, storages: tuple[StorageWish, ...]) -> Desired:
    return Desired(
        cluster=settings.CLUSTER_NAME,
        node=node.name,
        generation=node.generation,
        orders=(*orders, *_ends_of_strangers(node)),
        answers=answers,
        node_lost_after_s=settings.NODE_LOST_AFTER_S,
        storages=storages,
        mirrors=settings.REGISTRY_MIRRORS,
    )


def _ends_of_strangers(node: Node) -> Iterator[Order]:
    """Orders to end unknown containers."""
    for attempt, told in node.strangers.items():
        if "stopped_by" in told:
            by, reason = told["stopped_by"], told["reason"]
            message = f"stopped by {by}" + (f": {reason}" if reason else "")
            stop = Stop(reason=StopReason.USER, grace_s=settings.DEFAULT_GRACE_S, message=message)
            yield Order(attempt=attempt, phase=Phase.REMOVE, spec_hash="", since=node.generation, stop=stop)


def _order(
    row: _Row,
    node: Node,
    specs_known: Collection[str],
    ssh: SshAccess | None,
    peers: Mapping[tuple[int, int], tuple[str, ...]],
) -> Order:
    # Also with a stop: an agent that lost its record reads the log only once it knows what must be hidden in it.
    wanted = row.phase != Phase.REMOVE and row.spec_sealed and row.spec_hash not in specs_known
    return Order(
        attempt=str(row.id),
        phase=Phase(row.phase),
        spec_hash=row.spec_hash,
        since=row.phase_since,
        archived=row.archived_to,
        spec=row.spec_sealed if wanted else None,
        stop=_stop(row),
        code=_code(row, node),
        ssh=ssh,
        peers=peers.get((row.job_attempt, row.role), ()) if row.least is not None else (),
        turn=row.turn or 0,
        gpu=GpuWish.PARK if row.parking in OFF else GpuWish.HOLD,
        begun=reached(ContainerState(row.state), ContainerState.STARTING),
    )


def _code(row: _Row, node: Node) -> str | None:
    """Where the node may fetch its code, while the container may still have to be created."""
    if row.code is None or row.phase not in NEEDS_SPEC or reached(ContainerState(row.state), ContainerState.STARTING):
        return None
    ticket = Ticket(attempt=str(row.id), node=node.name, sha256=row.code)
    return PortalKey.seal_for(node.public_key, ticket_address(ticket).encode())


def _stop(row: _Row) -> Stop | None:
    if not row.stop_reason:
        return None
    return Stop(reason=StopReason(row.stop_reason), grace_s=row.stop_grace_s, message=row.stop_message)
