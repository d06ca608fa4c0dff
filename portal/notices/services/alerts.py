"""Alerts that began or are over become one mail to each administrator, and deliveries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.conf import settings

from portal.accounts.models import ClusterRole, User
from portal.notices.models import Mail, NoticeChoice
from portal.notices.services.bodies import AlertChange, alert_telling
from portal.notices.services.webhook import deliveries_make, kinds_wanted


def alerts_tell(*, changes: Sequence[AlertChange], now: datetime) -> None:
    """Tell of all of them, in the caller's transaction: who is killed before its end has told nobody. Administrators
    who have no address, or do not want to know, get no mail."""
    if settings.EMAIL_ON:
        Mail.objects.bulk_create(
            Mail(user=user, alerts=_said(changes, user), created_at=now, next_try_at=now, claimed_until=now)
            for user in _administrators()
        )
    hooked = kinds_wanted()
    deliveries_make([one for one in map(alert_telling, changes) if one.kind in hooked], now)


def _administrators() -> list[User]:
    deaf = NoticeChoice.objects.filter(alerts=False).values("user")
    people = User.objects.filter(role=ClusterRole.ADMIN, is_active=True).exclude(email="").exclude(pk__in=deaf)
    return list(people.order_by("pk"))


def _said(changes: Sequence[AlertChange], user: User) -> list[dict[str, object]]:
    language = user.language or settings.LANGUAGE_CODE
    return [
        {
            "begun": one.begun,
            "severity": one.severity,
            "since": one.since.isoformat(),
            "at": one.at.isoformat(),
            **(one.said.get(language) or one.said[settings.LANGUAGE_CODE])._asdict(),
        }
        for one in changes
    ]
