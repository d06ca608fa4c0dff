"""Silences: an administrator mutes an alert until a time, with a reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import translation
from django.utils.translation import gettext

from portal.accounts.audit import audit_write, changes_of
from portal.accounts.models import Audited, User
from portal.accounts.rights import Action, allowed_everywhere
from portal.alerts.alert import Alert, Severity
from portal.alerts.every import alerts_all
from portal.alerts.models import AlertSilence
from portal.common.errors import Denied, Fault, Invalid, NotFound
from portal.common.prepared import Prepared, Slot

LONGEST = timedelta(days=90)
"""Longest silence: none lasts for ever because somebody forgot it."""

_HOLDING = Prepared(lambda: AlertSilence.objects.filter(until__gt=Slot("now", datetime)))


def silences_holding(*, now: datetime) -> Sequence[AlertSilence]:
    """Silences in force, the first to end first. One query."""
    return list(_HOLDING(now=now))


def silenced(alerts: Iterable[Alert], silences: Iterable[AlertSilence]) -> list[Alert]:
    """The alerts, each with the silence that covers it; none if it is worse than when it was silenced."""
    by_key = {one.key: one for one in silences}
    return [replace(one, silence=covering(by_key.get(one.key), one.severity)) for one in alerts]


def covering(silence: AlertSilence | None, severity: Severity) -> AlertSilence | None:
    """The silence, unless this severity is worse than the silenced one."""
    return None if silence is None or severity.worse_than(Severity(silence.severity)) else silence


def silence_right(*, user: User) -> None:
    """Raises Denied for users who may not silence alerts."""
    if not allowed_everywhere(user, Action.ALERT_SILENCE):
        raise Denied(gettext("Only an administrator may silence alerts."))


def alert_to_silence(*, user: User, key: str, now: datetime) -> Alert:
    """A present alert, for silencing. Raises NotFound, Denied."""
    silence_right(user=user)
    return _alert(key, now)


def _alert(key: str, now: datetime) -> Alert:
    alert = next((one for one in alerts_all(now=now) if one.key == key), None)
    if alert is None:
        raise NotFound("alert", key)
    return alert


def silence_get(*, user: User, silence_id: int, now: datetime) -> AlertSilence:
    """A silence in force, for ending it. Raises NotFound, Denied."""
    silence_right(user=user)
    row = AlertSilence.objects.filter(pk=silence_id, until__gt=now).first()
    if row is None:
        raise NotFound("silence", silence_id)
    return row


def silence_set(*, key: str, reason: str, until: datetime, actor: str, now: datetime) -> AlertSilence:
    """Silences a present alert until then, replacing an earlier silence: it is shown as silenced, and neither its
    beginning nor its end is sent, unless it gets worse than now. Raises Invalid, NotFound."""
    if until <= now:
        raise Invalid([Fault("until", gettext("This is past."), "past")])
    if until > now + LONGEST:
        message = gettext("At most %(days)s days from now.") % {"days": LONGEST.days}
        raise Invalid([Fault("until", message, "too_late")])
    with translation.override(settings.LANGUAGE_CODE):
        alert = _alert(key, now)
    with transaction.atomic():
        known = AlertSilence.objects.select_for_update().filter(key=key).first()
        before = _told(known) if known and known.until > now else None
        values = {"name": alert.name[:255], "severity": str(alert.severity), "reason": reason, "until": until,
                  "author": actor, "created_at": now}  # fmt: skip
        row, _made = AlertSilence.objects.update_or_create(key=key, defaults=values)
        was, became = changes_of(before or {}, _told(row))
        if became:
            audit_write(Audited.ALERT_SILENCE, actor=actor, target=key, now=now, before=was or None, after=became)
    return row


def silence_end(*, silence: AlertSilence, actor: str, now: datetime) -> None:
    """Ends a silence early; idempotent."""
    with transaction.atomic():
        if AlertSilence.objects.filter(pk=silence.pk).delete()[0]:
            audit_write(Audited.ALERT_SILENCE, actor=actor, target=silence.key, now=now, before=_told(silence))


def silences_expire(*, now: datetime) -> None:
    """Deletes expired silences; the audit log keeps them."""
    AlertSilence.objects.filter(until__lte=now).delete()


def _told(row: AlertSilence) -> dict[str, Any]:
    return {"reason": row.reason, "severity": row.severity, "until": row.until.isoformat()}
