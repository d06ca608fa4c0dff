"""What a user wants to be told of."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.db import transaction

from portal.accounts.audit import audit_write, changes_of
from portal.accounts.models import Audited, User
from portal.notices.models import NoticeChoice
from portal.notices.states import JobNotice


def notice_choice_set(*, user: User, kinds: Collection[str], now: datetime, alerts: bool | None = None) -> NoticeChoice:
    """Tell the user of these kinds from now on, and of no others; of alerts (None: as it was) if the user is an
    administrator when they begin."""
    chosen = [str(kind) for kind in JobNotice if kind in kinds]
    with transaction.atomic():
        NoticeChoice.objects.get_or_create(user=user)
        choice = NoticeChoice.objects.select_for_update().get(user=user)
        before = _told(choice)
        choice.kinds = chosen
        choice.alerts = choice.alerts if alerts is None else alerts
        was, became = changes_of(before, _told(choice))
        if became:
            choice.save(update_fields=["kinds", "alerts"])
            audit_write(Audited.NOTICES, actor=user.username, target=user.username, now=now, before=was, after=became)
    return choice


def _told(choice: NoticeChoice) -> dict[str, Any]:
    return {"kinds": choice.kinds, "alerts": choice.alerts}
