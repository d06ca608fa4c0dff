"""Alerts of nodes and GPUs."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Count, Min, Q, QuerySet
from django.db.models.fields.json import KeyTransform
from django.utils.translation import gettext, gettext_noop

from nodes.protocol.names import FOREIGN_PROCESS, MIG_MODE
from portal.alerts.alert import Alert, Severity
from portal.cluster.selectors.holders import gpu_holders
from portal.common.prepared import Among, Prepared, Slot
from portal.common.sentences import some_of
from portal.hardware.agents import UNREAD, agent_cure, agent_wrong
from portal.hardware.clocks import LIMIT_MS, clock_cure, clock_wrong
from portal.hardware.disks import largest_words
from portal.hardware.health_words import health_words
from portal.hardware.listeners import LISTENERS, Answering, node_listeners
from portal.hardware.models import BAD_GPU, Gpu, Node, NodeEvent
from portal.hardware.outages import (
    FOUND_BY_NODE,
    full_why,
    growth_why,
    out_cure,
    out_why,
    pending_why,
    stuck_cure,
    stuck_why,
)
from portal.hardware.selectors.closed import servers_closed
from portal.hardware.selectors.unknown_containers import node_strangers
from portal.hardware.states import NodeHealth, Stuck
from portal.jobs.models import TaskAttempt
from portal.teams.models import VirtualCluster
from portal.teams.selectors.reaching import vcs_reaching
from portal.teams.selectors.shares import vc_quotas

log = logging.getLogger(__name__)

LOW, VERY_LOW = 10, 3
"""Percent of a disk that is free."""
SERVERS_CLOSED = "servers_closed"
NAMED = 10
"""Items named in a message at most."""
NEVER_CAME = timedelta(minutes=10)
MOST_EVENTS = 2000
COLUMNS = ("name", "health", "health_reason", "last_report_at", "joined_at", "clock_skew_ms", "inventory", "intent",
           "full_since", "out_since", "out_cause", "trial_at", "strangers", "stuck_since", "stuck_cause",
           "stuck_words", "accepted", "claims", "cpu_tasks", "sku")  # fmt: skip

STUCK: Mapping[str, str] = {Stuck.ENGINE: "node_engine", Stuck.ORDERS: "node_orders"}
"""Alert code by cause."""

AGENT = gettext_noop(
    "See on the server whether it and its agent run (systemctl status berth-node) and reach the portal's Redis."
)
GIVE_UP = gettext_noop("Where a server does not come back, give it up on its page: its jobs then wait for others.")
OPEN = gettext_noop(
    "Open one on its page, or bring back one that is lost; until then jobs wait, and start by themselves."
)
REPLACE = gettext_noop(
    "Drain the node, look at the GPU with nvidia-smi -q and at the kernel's log for Xid lines, and replace it."
)

FOREIGN = gettext_noop(
    "Look at it there (nvidia-smi, ps -fp), and end what does not belong there: the GPU comes back by itself. Put it "
    "back on the node's page where it is no matter."
)
MIG_OFF = gettext_noop(
    "Remove its slices (nvidia-smi mig -dci, then -dgi), and switch the mode off: the GPU comes back by itself."
)
UNCLEAR = gettext_noop(
    "The portal's log says what it stumbles over. See whether the server runs Berth's own agent, or was taken over."
)
ACCEPT = gettext_noop("Look at what it claims on its page, and accept it there, or remove it.")
CONFIRM = gettext_noop(
    "Where somebody has put it in, confirm it on the node's page; else find out who changed the server or its agent."
)
CLOSE = gettext_noop(
    "Have them ask for a password, or listen on a socket in the file system; or take the host network away from these "
    "virtual clusters, by their rules."
)
BACK = gettext_noop("Once it is good again, put it back on the node's page.")


def node_alerts(healthy: Sequence[str], now: datetime) -> Iterator[Alert]:
    """Alerts of all nodes and their GPUs; ``healthy``: the names of healthy nodes. Three queries, and some more if
    something is wrong."""
    together = _silent_together(now, len(healthy))
    yield from together
    nodes = _SUSPECT() if together else _SUSPECT_OR_SILENT(late=_late(now))
    lost = [node for node in nodes if node.health == NodeHealth.LOST]
    teams = _teams_on(lost)
    for node in lost:
        message = health_words(node.health_reason) or gettext("It does not report any more.")
        advice = f"{gettext(AGENT)} {gettext('Its jobs wait for other nodes.')}"
        yield Alert("node_lost", Severity.CRITICAL, "node", node.name, message, advice, node.last_report_at,
                    teams.get(node.pk, ()))  # fmt: skip
    for node in nodes:
        yield from _of_node_at_least(node, now, alone=not together)
    yield from _listener_alerts(nodes)
    yield from _gpu_alerts()


def _late(now: datetime) -> datetime:
    return now - timedelta(seconds=settings.NODE_LOST_AFTER_S / 2)


def _silent() -> Q:
    return Q(health=NodeHealth.HEALTHY, last_report_at__lt=Slot("late", datetime))


def _suspect() -> Q:
    """Filter for the few nodes that may have alerts."""
    off = Q(clock_skew_ms__gt=LIMIT_MS) | Q(clock_skew_ms__lt=-LIMIT_MS)
    shut = Q(full_since__isnull=False) | Q(out_since__isnull=False) | Q(stuck_since__isnull=False) | ~Q(strangers={})
    told = Q(inventory__has_key="agent") & ~Q(inventory__agent="")
    other = Q(inventory__has_key=UNREAD) | told & ~Q(inventory__agent=settings.VERSION)
    claims = Q(accepted__isnull=True) | ~Q(claims={})
    low, open_ones = Q(inventory__disk_free_percent__lt=LOW), Q(inventory__has_key=LISTENERS)
    return ~Q(health=NodeHealth.HEALTHY) | off | shut | other | claims | low | open_ones


def _those(which: Q) -> QuerySet[Node]:
    return Node.objects.filter(which).only(*COLUMNS).order_by("name")


def _silent_since() -> QuerySet[Node, tuple[int, datetime]]:
    """How many are silent, and since when; no row if none is."""
    rows = Node.objects.filter(_silent()).order_by().values_list("health")
    return rows.annotate(number=Count("pk"), since=Min("last_report_at")).values_list("number", "since")


_SUSPECT = Prepared(lambda: _those(_suspect()))
_SUSPECT_OR_SILENT = Prepared(lambda: _those(_suspect() | _silent()))
_SILENT = Prepared(_silent_since)


def _silent_together(now: datetime, healthy: int) -> list[Alert]:
    """One alert for all if most nodes are silent, before they are lost: the fault is not theirs."""
    number, since = _SILENT.first(late=_late(now)) or (0, None)
    if number <= 1 or number * 2 <= healthy:
        return []
    message = gettext("%(number)s of %(healthy)s nodes fell silent together; none is given up.") % {
        "number": number,
        "healthy": healthy,
    }
    look = gettext("Look at the network, at the broker's address and at the worker that takes reports in.")
    advice = f"{look} {gettext(GIVE_UP)}"
    everybody = tuple(VirtualCluster.objects.order_by("name").values_list("name", flat=True))
    return [Alert("nodes_silent", Severity.CRITICAL, "cluster", "nodes", message, advice, since, everybody)]


def _teams_on(nodes: Sequence[Node]) -> dict[int, tuple[str, ...]]:
    """Virtual clusters with tasks that are, or may still be, on these nodes; no query if there are none."""
    if not nodes:
        return {}
    rows = TaskAttempt.objects.filter(node__in=nodes, released_at__isnull=True).order_by()
    teams: dict[int, set[str]] = defaultdict(set)
    for node, vc in rows.values_list("node", "task__job__vc__name"):
        teams[node].add(vc)
    return {node: tuple(sorted(names)) for node, names in teams.items()}


def _of_node_at_least(node: Node, now: datetime, *, alone: bool) -> Iterator[Alert]:
    """Alerts of one node; if they cannot be determined, that is an alert, and other nodes are unaffected."""
    try:
        yield from _of_node(node, now, alone=alone)
    except Exception:
        log.exception("what is wrong with %s cannot be told", node.name)
        message = gettext("What is wrong with it cannot be told: what is kept of its reports cannot be read.")
        yield Alert("node_unclear", Severity.WARNING, "node", node.name, message, gettext(UNCLEAR))


def _of_node(node: Node, now: datetime, *, alone: bool) -> Iterator[Alert]:
    """``alone``: report its silence here, not in the alert for all."""
    reported = node.last_report_at
    if alone and node.health == NodeHealth.HEALTHY and reported and reported < _late(now):
        seconds = int((now - reported).total_seconds())
        message = gettext("It has not reported for %(seconds)s s.") % {"seconds": seconds}
        advice = f"{gettext(AGENT)} {gettext(GIVE_UP)}" if node.silent else gettext(AGENT)
        yield Alert("node_silent", Severity.WARNING, "node", node.name, message, advice, reported)
    if node.health == NodeHealth.UNKNOWN and now - node.joined_at > NEVER_CAME:
        advice = gettext("Start its agent with the key that was registered, or remove the node.")
        yield Alert("node_never_came", Severity.WARNING, "node", node.name, gettext("It has never reported."), advice,
                    node.joined_at)  # fmt: skip
    yield from _of_claims(node)
    if node.clock_fault:
        yield Alert("node_clock", Severity.WARNING, "node", node.name, clock_wrong(node.clock_skew_ms), clock_cure())
    if wrong := agent_wrong(node.inventory):
        yield Alert("node_version", Severity.WARNING, "node", node.name, wrong, agent_cure(node.inventory))
    if node.stuck_since and node.health == NodeHealth.HEALTHY:
        yield Alert(STUCK[node.stuck_cause], Severity.CRITICAL, "node", node.name, stuck_why(node), stuck_cure(node),
                    node.stuck_since)  # fmt: skip
    if node.out_since:
        yield Alert("node_out", Severity.CRITICAL, "node", node.name, out_why(node), out_cure(node), node.out_since)
    for one in node_strangers(node):
        message = gettext("It runs the container of a task attempt that this portal does not know: %(attempt)s.")
        advice = gettext("See on the node's page whether it is wanted, and have it stopped there where it is not.")
        told = message % {"attempt": one.attempt}
        if one.folder:
            told = f"{told} {gettext('Its job folder is %(folder)s.') % {'folder': one.folder}}"
        yield Alert("container_unknown", Severity.WARNING, "node", node.name, told, advice, one.seen_at,
                    ref=f"{node.name}/{one.attempt}")  # fmt: skip
    free = node.inventory.get("disk_free_percent")
    if node.health == NodeHealth.HEALTHY and isinstance(free, int) and (free < LOW or node.full_since):
        advice = gettext("Remove images that nobody uses (docker image prune -a), and look for large logs.")
        severity = Severity.CRITICAL if node.full_since or free < VERY_LOW else Severity.WARNING
        message = full_why(node) or gettext("%(free)s %% of its disk for containers are free.") % {"free": free}
        message = " ".join(filter(None, [message, largest_words(node)]))
        yield Alert("disk_low", severity, "node", node.name, message, advice, node.full_since)


def _of_claims(node: Node) -> Iterator[Alert]:
    if node.health != NodeHealth.HEALTHY:
        return
    if node.pending:
        yield Alert("node_pending", Severity.WARNING, "node", node.name, pending_why(node), gettext(ACCEPT),
                    node.joined_at)  # fmt: skip
    elif grown := growth_why(node):
        yield Alert("node_grew", Severity.WARNING, "node", node.name, grown, gettext(CONFIRM))


def _listener_alerts(nodes: Sequence[Node]) -> Iterator[Alert]:
    """Open services that tasks on the host network can reach. One query for who may place such tasks there; shown only
    to administrators."""
    found = [(node, node_listeners(node)) for node in nodes if node.health == NodeHealth.HEALTHY and node.accepted]
    open_ones = [(node, listeners) for node, listeners in found if listeners]
    reaching = vcs_reaching(nodes=[node for node, _ in open_ones])
    for node, listeners in open_ones:
        if vcs := reaching[node.pk]:
            severity = Severity.INFO if all(one.figures for one in listeners) else Severity.WARNING
            yield Alert("node_listeners", severity, "node", node.name, _reached(listeners, vcs), gettext(CLOSE))


def _reached(listeners: Sequence[Answering], vcs: Sequence[str]) -> str:
    message = gettext(
        "This answers there without authentication: %(things)s. It is reached by jobs of several tasks, which may come "
        "from %(vcs)s."
    ) % {"things": some_of([one.words for one in listeners], NAMED), "vcs": some_of(vcs, NAMED)}
    if not any(one.everywhere for one in listeners):
        return message
    return f"{message} {gettext('What listens at all addresses is reached by every job there.')}"


def closed_alerts() -> Iterator[Alert]:
    """No server accepts new jobs, or none with some kind of GPU. One query, and three more if so."""
    closed = servers_closed()
    teams = list(VirtualCluster.objects.order_by("name")) if closed else []
    quotas = vc_quotas(vcs=teams) if closed else {}
    for one in closed:
        whose = tuple(vc.name for vc in teams if not one.sku or quotas[vc.pk].get(one.sku))
        severity = Severity.WARNING if one.sku else Severity.CRITICAL
        name, message = one.sku or gettext("all servers"), f"{one.what} {one.why}{gettext('.')}"
        yield Alert(SERVERS_CLOSED, severity, "cluster", name, message, gettext(OPEN), vcs=whose, ref=one.sku or "*")


def _gpu_alerts() -> Iterator[Alert]:
    bad = _BAD()
    if not bad:
        return
    since = _since(bad)
    holders = gpu_holders(gpus=[gpu.pk for gpu in bad])
    for gpu in bad:
        holder = holders.get(gpu.pk)
        name, teams = f"{gpu.node.name}/{gpu.index}", (holder.vc,) if holder else ()
        if gpu.present and gpu.fault.startswith(FOUND_BY_NODE + FOREIGN_PROCESS):
            yield Alert("gpu_foreign_process", Severity.WARNING, "gpu", name, f"GPU {gpu.index}: {_said(gpu)}",
                        gettext(FOREIGN), since.get(gpu.pk), teams)  # fmt: skip
        elif gpu.present and gpu.fault.startswith(FOUND_BY_NODE + MIG_MODE):
            yield Alert("gpu_mig", Severity.WARNING, "gpu", name, f"GPU {gpu.index}: {health_words(gpu.fault)}",
                        gettext(MIG_OFF), since.get(gpu.pk), teams)  # fmt: skip
        elif gpu.present:
            message, advice = f"GPU {gpu.index}: {health_words(gpu.fault)}", gettext(REPLACE)
            if gpu.fault.startswith(FOUND_BY_NODE):
                advice = f"{advice} {gettext(BACK)}"
            yield Alert("gpu_faulty", Severity.WARNING, "gpu", name, message, advice, since.get(gpu.pk), teams)
        else:
            again = gettext("If it shall not come back, refresh the node's topology.")
            message = gettext("GPU %(index)s (%(uuid)s) is not there any more.")
            yield Alert("gpu_gone", Severity.WARNING, "gpu", name, message % {"index": gpu.index, "uuid": gpu.uuid},
                        f"{gettext(REPLACE)} {again}", since.get(gpu.pk), teams)  # fmt: skip


def _bad() -> QuerySet[Gpu]:
    rows = Gpu.objects.filter(BAD_GPU).select_related("node")
    return rows.order_by("node__name", "index")


_BAD = Prepared(_bad)


def _since(gpus: Sequence[Gpu]) -> dict[int, datetime]:
    """When each GPU last changed, from the events of its node."""
    last: dict[tuple[int, int], datetime] = {}
    for node, index, at in _EVENTS(nodes={gpu.node_id for gpu in gpus}):
        last.setdefault((node, index), at)
    return {gpu.pk: last[gpu.node_id, gpu.index] for gpu in gpus if (gpu.node_id, gpu.index) in last}


def _events() -> QuerySet[NodeEvent, tuple[int, int, datetime]]:
    events = NodeEvent.objects.filter(Among("node", "nodes"), code__in=["gpu_changed", "gpu_gone"])
    return events.order_by("-id").values_list("node", KeyTransform("index", "data"), "at")[:MOST_EVENTS]


_EVENTS = Prepared(_events)


def _said(gpu: Gpu) -> str:
    """The node's own message, which is in English."""
    return gpu.fault.removeprefix(FOUND_BY_NODE) + "."
