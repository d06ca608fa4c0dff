"""Storing secrets of users and virtual clusters."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext

from portal.accounts.audit import audit_write
from portal.accounts.models import Audited, User
from portal.common.errors import Conflict, NotFound
from portal.common.sealing import seal
from portal.secrets.models import SecretKind, StoredSecret
from portal.teams.models import VirtualCluster

MOST_STORED = 200
"""Secrets, and log-ins, that one user or one virtual cluster may store."""


def secret_set(
    *,
    owner: User | VirtualCluster,
    kind: SecretKind,
    name: str,
    value: Any,
    username: str = "",
    actor: str,
    now: datetime,
) -> StoredSecret:
    """Store a secret, in place of an earlier one of that name; jobs that were submitted before keep what they have.
    Raises Conflict where too many are stored already."""
    which: dict[str, Any] = {**_owner(owner), "kind": kind, "name": name}
    with transaction.atomic():
        known = StoredSecret.objects.filter(**which).first()
        if known is None and StoredSecret.objects.filter(**_owner(owner), kind=kind).count() >= MOST_STORED:
            raise Conflict(
                gettext("%(most_stored)s are stored, and there can be no more; delete one first.")
                % {"most_stored": MOST_STORED}
            )
        row, _ = StoredSecret.objects.update_or_create(
            **which, defaults={"sealed": seal(value), "username": username, "changed_at": now}
        )
        _audit(owner, kind, name, actor, now, before=_told(known), after=_told(row))
    return row


def secret_delete(*, owner: User | VirtualCluster, kind: SecretKind, name: str, actor: str, now: datetime) -> None:
    """Forget it; jobs that were submitted with it keep it. Raises NotFound."""
    with transaction.atomic():
        known = StoredSecret.objects.filter(**_owner(owner), kind=kind, name=name).first()
        if known is None:
            raise NotFound("registry log-in" if kind == SecretKind.REGISTRY else "secret", name)
        known.delete()
        _audit(owner, kind, name, actor, now, before=_told(known), after=None)


def _told(row: StoredSecret | None) -> dict[str, Any] | None:
    """What the audit log says of it: never the value."""
    if row is None:
        return None
    return {"username": row.username} if row.kind == SecretKind.REGISTRY else {}


def _owner(owner: User | VirtualCluster) -> dict[str, User | VirtualCluster]:
    return {"user" if isinstance(owner, User) else "vc": owner}


def _audit(
    owner: User | VirtualCluster,
    kind: SecretKind,
    name: str,
    actor: str,
    now: datetime,
    *,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
) -> None:
    whose = owner.username if isinstance(owner, User) else owner.name
    audit_write(
        Audited.SECRET, actor=actor, target=f"{kind} {name} of {whose}", now=now, before=before, after=after,
        vc="" if isinstance(owner, User) else owner.name,
    )  # fmt: skip
