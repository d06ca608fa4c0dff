"""The audit log: who did what, to what, from where, and its state before and after.

An entry is written in the transaction of its change: neither exists without the other. The portal has no way to change
or delete an entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, TypedDict

from django.db.models import QuerySet

from portal.accounts.models import Audited, AuditEntry, User
from portal.accounts.rights import Action, allowed_everywhere
from portal.common.errors import NotFound
from portal.common.origin import origin
from portal.common.prepared import Prepared, Slot

Values = Mapping[str, Any]
"""The audited state of a thing: plain JSON, never a secret."""


class By(TypedDict):
    """Who does something, and when: as every service takes it."""

    actor: str
    now: datetime


PAGE = 100
"""Entries on a page."""

READ_AGAIN = timedelta(hours=1)
"""Reading the same thing again within this time is not logged again."""


def audit_write(
    action: Audited,
    *,
    actor: str,
    target: str,
    now: datetime,
    vc: str = "",
    before: Values | None = None,
    after: Values | None = None,
) -> None:
    """Logs what ``actor`` (a user name; empty: the portal itself) did to ``target``, in the caller's transaction."""
    came = origin()
    AuditEntry.objects.create(
        at=now, actor=actor, action=action, target=target[:255], vc=vc, before=before, after=after,
        via=came.via, address=came.address or None,
    )  # fmt: skip


def audit_read(action: Audited, *, actor: str, target: str, now: datetime, vc: str = "") -> None:
    """Logs that somebody reads another user's thing; at most once an hour."""
    if not _READ(actor=actor, action=action.value, target=target[:255], after=now - READ_AGAIN):
        audit_write(action, actor=actor, target=target, now=now, vc=vc)


def _read_lately() -> QuerySet[AuditEntry, int]:
    named = {name: Slot(name, str) for name in ("actor", "action", "target")}
    return (
        AuditEntry.objects.filter(**named, at__gt=Slot("after", datetime)).order_by().values_list("pk", flat=True)[:1]
    )


_READ = Prepared(_read_lately)


def audit_entries(*, user: User) -> QuerySet[AuditEntry]:
    """All entries, newest first. Raises NotFound for those who may not read them."""
    if not allowed_everywhere(user, Action.AUDIT_READ):
        raise NotFound("audit log")
    return AuditEntry.objects.order_by("-id")


def audit_last(*actions: Audited, target: str | None = None) -> AuditEntry | None:
    """The newest entry of these actions (on ``target``), to show to others who edit the same. One query."""
    entries = AuditEntry.objects.filter(action__in=actions)
    return (entries if target is None else entries.filter(target=target[:255])).order_by("-id").first()


def audit_found(*, entries: QuerySet[AuditEntry], before: int | None = None) -> tuple[list[AuditEntry], bool]:
    """A page of entries, older than ``before``, and whether there are more. One query."""
    rows = list((entries if before is None else entries.filter(pk__lt=before))[: PAGE + 1])
    return rows[:PAGE], len(rows) > PAGE


def changes_of(before: Values, after: Values) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values that differ between two descriptions of a thing, before and after."""
    differ = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return {name: before[name] for name in differ if name in before}, {
        name: after[name] for name in differ if name in after
    }
