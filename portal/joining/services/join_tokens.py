"""Joining with one command: an administrator makes a token, and a server that brings it registers itself with a key of
its own (docs/decisions/joining.md)."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext

from nodes.protocol.envelope import PortalKey
from portal.accounts.audit import audit_write
from portal.accounts.models import Audited
from portal.common.errors import Denied, Fault, Invalid
from portal.common.throttles import Rate, RateLimit, by_address
from portal.hardware.models import Node
from portal.hardware.services.nodes import at_once_faults
from portal.joining.models import JoinToken
from portal.joining.services.joining import agent_environment, node_register, portal_authority, redis_authority

MARK = "berth_join_"
SHOWN = len(MARK) + 5
HOURS_MOST, USES_MOST = 24 * 30, 1000
RACK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
TRIES = RateLimit("join", Rate(30, 60))
"""Per address: a whole rack may join at once, but a token of 256 bits cannot be guessed."""


@dataclass(frozen=True, slots=True)
class NewJoinToken:
    """A new join token with its ``secret``, which is not stored."""

    token: JoinToken
    secret: str = field(repr=False)


def join_token_create(
    *, uses: int, hours: int, labels: str, actor: str, now: datetime, accept: bool = False, cpu_tasks: bool = False
) -> NewJoinToken:
    """Makes a join token for so many servers and hours. ``labels``: ``rack=3``, or nothing. ``accept``: servers that
    bring it get jobs at once, with all that their first report says; with ``cpu_tasks`` also tasks without GPUs. Raises
    Invalid."""
    if faults := [*_faults(uses, hours, labels), *at_once_faults(accept, cpu_tasks)]:
        raise Invalid(faults)
    secret, rack = MARK + secrets.token_urlsafe(32), labels.strip().partition("=")[2]
    with transaction.atomic():
        token = JoinToken.objects.create(
            prefix=secret[:SHOWN], digest=_digest(secret), uses=uses, rack=rack, accept=accept,
            cpu_tasks=cpu_tasks, created_by=actor, created_at=now, expires_at=now + timedelta(hours=hours),
        )  # fmt: skip
        after = {
            "uses": uses, "expires_at": token.expires_at.isoformat(), "labels": labels.strip(), "accept": accept,
            "cpu_tasks": cpu_tasks,
        }  # fmt: skip
        audit_write(Audited.JOIN_TOKEN, actor=actor, target=token.prefix, now=now, after=after)
    return NewJoinToken(token, secret)


def _faults(uses: int, hours: int, labels: str) -> Iterator[Fault]:
    if not 1 <= uses <= USES_MOST:
        yield Fault("uses", gettext("From 1 to %(most)s servers.") % {"most": USES_MOST}, "invalid")
    if not 1 <= hours <= HOURS_MOST:
        yield Fault("hours", gettext("From 1 to %(most)s hours.") % {"most": HOURS_MOST}, "invalid")
    name, _, value = labels.strip().partition("=")
    if labels.strip() and not (name == "rack" and RACK.fullmatch(value)):
        words = gettext("Write rack=NAME: letters, digits, dots, dashes and underscores, at most 64.")
        yield Fault("labels", words, "invalid")


def join_token_revoke(*, token: JoinToken, actor: str, now: datetime) -> None:
    """Revokes a join token; idempotent."""
    with transaction.atomic():
        if JoinToken.objects.filter(pk=token.pk, revoked_at__isnull=True).update(revoked_at=now):
            before = {"uses": token.uses, "used": token.used, "labels": f"rack={token.rack}" if token.rack else ""}
            audit_write(Audited.JOIN_TOKEN, actor=actor, target=token.prefix, now=now, before=before)


@dataclass(frozen=True, slots=True)
class Joined:
    """A server that joined. ``sealed``: its settings, as JSON that only its own key opens."""

    node: Node
    sealed: str


def node_join(*, token: str, name: str, public_key: str, address: str, now: datetime) -> Joined:
    """Registers the server that brings the token. The same server with the same key again gets the same answer, and
    uses up nothing. Raises RateLimited, Denied for an invalid token, Invalid and Conflict as ``node_register``."""
    TRIES.take(by_address(address), now=now)
    with transaction.atomic():
        # Locked to the end: a server that asks twice at once is one server.
        row = JoinToken.objects.select_for_update().filter(digest=_digest(token)).first()
        if row is None or row.revoked_at is not None:
            raise Denied(gettext("This join token is not known or was revoked. Ask an administrator for another one."))
        node = Node.objects.filter(name=name, public_key=public_key).first() if public_key else None
        if node is None:
            _use(row, now)
            node = node_register(
                name=name, public_key=public_key, actor=row.created_by, now=now, accept=row.accept,
                cpu_tasks=row.cpu_tasks,
            ).node  # fmt: skip
            after = {"node": name, "used": row.used + 1, "uses": row.uses}
            audit_write(Audited.JOIN_TOKEN, actor=row.created_by, target=row.prefix, now=now, after=after)
    environment = agent_environment(node=node, secret=True) | ({"BERTH_NODE_RACK": row.rack} if row.rack else {})
    told = {"environment": environment, "redis_ca": redis_authority()}
    # Nobody else can read the credentials, not even a token's holder who names somebody else's key.
    return Joined(node, PortalKey.seal_for(node.public_key, json.dumps(told).encode()))


def _use(token: JoinToken, now: datetime) -> None:
    """Counts one use; the row is locked."""
    if token.expires_at <= now:
        raise Denied(gettext("This join token has expired. Ask an administrator for another one."))
    if token.used >= token.uses:
        raise Denied(
            gettext(
                "This join token is used up: %(uses)s servers have joined by it. Ask an administrator for another one."
            )
            % {"uses": token.uses}
        )
    JoinToken.objects.filter(pk=token.pk).update(used=F("used") + 1)


def join_line(secret: str) -> str:
    """The command to run on the server."""
    return f"sudo /opt/berth/nodes/berth-node join {_words(secret)}"


def join_line_in_container(secret: str) -> str:
    """The same with the agent's image, in a clone of the repository."""
    return f"docker compose run --rm --build berth-node join {_words(secret)}"


def _words(secret: str) -> str:
    """The command's arguments; with the digest of the portal's CA if it has one, which the server fetches and pins."""
    authority = portal_authority()
    known = f" --ca-sha256 {hashlib.sha256(authority.encode()).hexdigest()}" if authority else ""
    return f"{settings.URL} {secret}{known}"


def _digest(secret: str) -> str:
    """The stored hash of a secret; 256 random bits need no salt."""
    return hashlib.sha256(secret.strip().encode("utf-8", "replace")).hexdigest()
