"""Registers a server that joins without a terminal at the portal; its key is made here, shown once to whoever registers
it, and not stored. Why: docs/decisions/joining.md."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext

from nodes.protocol.addresses import redis_is_local
from nodes.protocol.envelope import NodeKey
from nodes.protocol.states import ContainerState
from portal.accounts.audit import audit_write
from portal.accounts.models import Audited
from portal.common.errors import Conflict, Fault, Invalid
from portal.hardware.models import Node
from portal.hardware.services.nodes import node_add, node_event
from portal.hardware.services.redis_accounts import redis_accounts_soon, redis_address
from portal.hardware.silences import silent_way_out
from portal.hardware.states import NodeHealth
from portal.joining.wordings import NEW_KEY

AGENTS_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
"""Names that an agent accepts for itself; they are part of host names inside jobs."""
PASSWORD = "PASSWORD"  # noqa: S105  # what stands in its place


@dataclass(frozen=True, slots=True)
class Joining:
    """What a server needs to report as this node. ``key``: its private key, which cannot be shown again; empty: the
    server made its own."""

    node: Node
    key: str = field(repr=False)


def node_register(
    *, name: str, actor: str, now: datetime, public_key: str = "", accept: bool = False, cpu_tasks: bool = False
) -> Joining:
    """Registers a server under this name, with a key made here or its own. ``accept``, ``cpu_tasks``: as ``node_add``.
    Raises Invalid for an invalid name or key, Conflict if the name has another key."""
    if not AGENTS_NAME.fullmatch(name):
        words = gettext("Small letters, digits, dots and dashes, at most 63, a letter or digit first and last.")
        raise Invalid([Fault("name", words, "invalid")])
    made = "" if public_key else NodeKey.generate().secret
    public = NodeKey.load(made).public if made else public_key
    node = node_add(name=name, public_key=public, now=now, actor=actor, accept=accept, cpu_tasks=cpu_tasks)
    return Joining(node, made)


def node_new_key(*, node: Node, actor: str, now: datetime) -> Joining:
    """Replaces the node's key; from then on signatures by the old one are refused. Raises Conflict while it has tasks,
    whose orders are sealed to the old key and whose logs it signs."""
    made = NodeKey.generate()
    with transaction.atomic():
        row = Node.objects.select_for_update(no_key=True).get(pk=node.pk)
        before = row.public_key
        if _tasks_known(row):
            words = gettext("Tasks are on %(node)s, or their logs still come in; drain it first, then make a new key.")
            raise Conflict(f"{words % {'node': node.name}} {silent_way_out(row, now)}".strip())
        _key_put(node, before=before, public_key=made.public, actor=actor, now=now)
    return Joining(node, made.secret)


def node_key_lost(*, node: Node, public_key: str, now: datetime) -> None:
    """Registers the new key of a node that lost its state folder, and with it its old key and all it knew of tasks.
    Nobody is left to sign for tasks that its caller gave up."""
    with transaction.atomic():
        before = Node.objects.select_for_update(no_key=True).values_list("public_key", flat=True).get(pk=node.pk)
        _key_put(node, before=before, public_key=public_key, actor="", now=now)


def _key_put(node: Node, *, before: str, public_key: str, actor: str, now: datetime) -> None:
    # Placements under way are planned anew. The new key's holder starts counting boots anew, whatever the old one's
    # clock was; what the old key signed is refused anyway.
    Node.objects.filter(pk=node.pk).update(
        public_key=public_key, placement_version=F("placement_version") + 1, boot=0, seq=0
    )
    redis_accounts_soon()
    words = NEW_KEY(node=node.name)
    node_event(node=node, code="new_key", message=words, now=now, actor=actor)
    audit_write(
        Audited.NODE_KEY, actor=actor, target=node.name, now=now,
        before={"public_key": before}, after={"public_key": public_key},
    )  # fmt: skip
    node.public_key = public_key


def _tasks_known(node: Node) -> bool:
    """Whether the server still has something of a task that was not given up with it. A lost server reports nothing
    more of ended tasks: neither the rest of their logs, nor that a container which survived SIGKILL is gone."""
    known = node.task_attempts.filter(removed_at__isnull=True, lost_at__isnull=True)
    if node.health == NodeHealth.LOST:
        known = known.exclude(state=ContainerState.TERMINATED)
    return known.exists()


STATE_DIR = "/var/lib/berth-node"
REDIS_CA_FILE = f"{STATE_DIR}/redis-ca.pem"
"""Where the shown commands store the CA of Redis's certificate."""


def agent_environment(*, node: Node, secret: bool) -> dict[str, str]:
    """The agent's environment variables, with default settings. The password of its Redis account is included only
    right after registration (``secret``); else, or if nodes have no accounts of their own, ``PASSWORD`` replaces it."""
    address = redis_address(node) if settings.REDIS_ACCOUNTS else settings.REDIS_NODES_URL
    url = _without_tls(address)
    return {
        "BERTH_NODE_NAME": node.name,
        "BERTH_NODE_CLUSTER": settings.CLUSTER_NAME,
        "BERTH_NODE_REDIS_URL": url if secret and settings.REDIS_ACCOUNTS else _without_password(url),
        **({"BERTH_NODE_REDIS_CA": REDIS_CA_FILE} if redis_authority() else {}),
        "BERTH_NODE_PORTAL_URL": settings.URL,
        "BERTH_NODE_PORTAL_PUBLIC_KEY": settings.PORTAL_KEY.public,
    }


def agent_lines(environment: Mapping[str, str], *, key: str = "") -> str:
    """Shell commands that install key, CA and settings for the agent; no ``key``: it has its own."""
    made = f"sudo install -d -m 0700 {STATE_DIR}\n"
    lines = f"{made}{_file(f'{STATE_DIR}/node.key', key, private=True)}" if key else ""
    if "BERTH_NODE_REDIS_CA" in environment:
        lines += f"{made}{_file(REDIS_CA_FILE, redis_authority(), private=False)}"
    settings_of = "\n".join(f"{name}={value}" for name, value in environment.items())
    return lines + _file("/etc/berth-node.env", settings_of, private=True)


def _file(path: str, text: str, *, private: bool) -> str:
    return f"sudo sh -c '{'umask 077; ' if private else ''}cat > {path}' <<'END'\n{text}\nEND\n"


def redis_authority() -> str:
    """CA certificates (PEM) by which nodes verify the portal's Redis; empty: the system's."""
    if not settings.REDIS_CA or urlsplit(settings.REDIS_NODES_URL).scheme != "rediss":
        return ""
    return Path(settings.REDIS_CA).read_text(encoding="ascii", errors="replace").strip()


def portal_authority() -> str:
    """CA certificates (PEM) by which servers verify the portal itself; empty: the system's."""
    return Path(settings.PORTAL_CA).read_text(encoding="ascii", errors="replace") if settings.PORTAL_CA else ""


def redis_is_out_of_reach() -> bool:
    """Whether the URL of the portal's Redis is unusable from another server."""
    return redis_is_local(settings.REDIS_NODES_URL)


def _without_tls(url: str) -> str:
    """The URL without its query, which an agent adds by itself, or has at another path."""
    return urlsplit(url)._replace(query="").geturl()


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    if parts.password is None:
        return url
    _secret, _at, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{parts.username or ''}:{PASSWORD}@{host}").geturl()
