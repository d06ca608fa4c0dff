"""Which images jobs may run."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext, gettext_noop

from portal.accounts.audit import audit_write
from portal.accounts.models import Audited
from portal.common.errors import Conflict
from portal.images.models import ImageRule
from portal.teams.models import VirtualCluster

MOST_RULES = 500
"""Of one virtual cluster, or of the whole cluster."""
EVERYWHERE = gettext_noop("the cluster")


def image_rule_add(
    *, vc: VirtualCluster | None, pattern: str, profile: str = "root", note: str = "", now: datetime, actor: str
) -> ImageRule:
    """Let images of this pattern run in the virtual cluster, or (None) in all without rules of their own; ``profile``
    ``user``: never as root. Jobs that wait are judged again when they are about to start. Raises Conflict where the
    rule is there, or too many are."""
    with transaction.atomic():
        rules = ImageRule.objects.filter(vc=vc)
        if rules.count() >= MOST_RULES:
            raise Conflict(
                gettext("%(most_rules)s patterns are there, and there can be no more; remove one first.")
                % {"most_rules": MOST_RULES}
            )
        row, made = ImageRule.objects.get_or_create(
            vc=vc, pattern=pattern, defaults={"profile": profile, "note": note, "created_at": now}
        )
        if not made:
            whose = vc.name if vc else gettext(EVERYWHERE)
            raise Conflict(
                gettext("%(pattern)s is among the images of %(whose)s already.") % {"pattern": pattern, "whose": whose}
            )
        _audit(row, actor, now, after=_told(row))
    return row


def image_rule_remove(*, rule: ImageRule, now: datetime, actor: str) -> None:
    """Take a pattern off the list; what runs goes on. Doing it twice is doing it once."""
    with transaction.atomic():
        if ImageRule.objects.filter(pk=rule.pk).delete()[0]:
            _audit(rule, actor, now, before=_told(rule))


def _told(rule: ImageRule) -> dict[str, str]:
    return {"pattern": rule.pattern, "profile": rule.profile, "note": rule.note}


def _audit(rule: ImageRule, actor: str, now: datetime, **values: dict[str, str]) -> None:
    name = rule.vc.name if rule.vc else ""
    audit_write(Audited.IMAGES, actor=actor, target=name or EVERYWHERE, vc=name, now=now, **values)
