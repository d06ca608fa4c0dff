"""Changes to the idle policy and its exceptions by administrators and leads."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext

from portal.accounts.audit import audit_write, changes_of
from portal.accounts.models import Audited, User
from portal.common.errors import Conflict, Fault, Invalid
from portal.common.versions import version_check
from portal.idle.models import IdleExemption, IdlePolicy
from portal.idle.selectors import idle_policy_of, idle_policy_told
from portal.jobs.models import Job
from portal.teams.models import VirtualCluster

EVERYWHERE = "the cluster"
MOST_EXEMPTIONS = 500
"""Per virtual cluster, and for the whole cluster."""


def idle_policy_set(
    *, vc: VirtualCluster | None, terms: Mapping[str, Any], seen: str | None = None, now: datetime, actor: str
) -> IdlePolicy:
    """Sets some of ``TERMS`` for a virtual cluster, or (None) for all without their own; others stay as they apply
    there. Open warnings under other terms are withdrawn and issued anew. Raises Conflict if ``seen``, the version that
    the change was based on, is not the present one."""
    with transaction.atomic():
        row = IdlePolicy.objects.select_for_update().filter(vc=vc).first()
        before = idle_policy_told(row or idle_policy_of(vc.pk if vc else None))
        version_check(before, seen)
        after = {**before, **terms}
        row, made = IdlePolicy.objects.update_or_create(vc=vc, defaults=after)
        was, became = changes_of({} if made else before, after)
        if became:
            _audit_policy(vc, actor, now, before=was or None, after=became)
    return row


def idle_policy_remove(*, vc: VirtualCluster, now: datetime, actor: str) -> None:
    """Removes the virtual cluster's own policy. Idempotent."""
    with transaction.atomic():
        row = IdlePolicy.objects.filter(vc=vc).first()
        if row is not None and IdlePolicy.objects.filter(pk=row.pk).delete()[0]:
            _audit_policy(vc, actor, now, before=idle_policy_told(row))


def _audit_policy(vc: VirtualCluster | None, actor: str, now: datetime, **values: Any) -> None:
    name = vc.name if vc else ""
    audit_write(Audited.IDLE_POLICY, actor=actor, target=name or EVERYWHERE, vc=name, now=now, **values)


def idle_exemption_add(
    *,
    vc: VirtualCluster | None,
    user: User | None,
    job: Job | None,
    pattern: str,
    reason: str,
    until: datetime | None,
    now: datetime,
    actor: str,
    tag: str = "",
) -> IdleExemption:
    """Exempts jobs: of a user, one, by name or tag; in one virtual cluster or (None) in all. Raises Invalid if nothing
    is named or the end is past, Conflict if there are too many."""
    if user is None and job is None and not pattern and not tag:
        raise Invalid([Fault("", gettext("Name a user, a job, a pattern of names or a tag."), "required")])
    if until is not None and until <= now:
        raise Invalid([Fault("until", gettext("This is past."), "past")])
    with transaction.atomic():
        if IdleExemption.objects.filter(vc=vc).count() >= MOST_EXEMPTIONS:
            raise Conflict(
                gettext("%(most_exemptions)s exceptions are there, and there can be no more; remove one first.")
                % {"most_exemptions": MOST_EXEMPTIONS}
            )
        row = IdleExemption.objects.create(
            vc=vc, user=user, job=job, pattern=pattern, tag=tag, reason=reason, until=until, author=actor,
            created_at=now,
        )  # fmt: skip
        _audit_exemption(row, actor, now, after=_told(row))
    return row


def idle_exemption_remove(*, exemption: IdleExemption, now: datetime, actor: str) -> None:
    """Removes the exception. Idempotent."""
    with transaction.atomic():
        if IdleExemption.objects.filter(pk=exemption.pk).delete()[0]:
            _audit_exemption(exemption, actor, now, before=_told(exemption))


def _told(row: IdleExemption) -> dict[str, Any]:
    """An exception as dict for the audit log."""
    named = {
        "user": row.user and row.user.username,
        "job": row.job and row.job.label,
        "pattern": row.pattern,
        "tag": row.tag,
        "reason": row.reason,
        "until": row.until and row.until.isoformat(),
    }
    return {name: value for name, value in named.items() if value}


def _audit_exemption(row: IdleExemption, actor: str, now: datetime, **values: Any) -> None:
    name = row.vc.name if row.vc else ""
    audit_write(Audited.IDLE_EXEMPTION, actor=actor, target=name or EVERYWHERE, vc=name, now=now, **values)
