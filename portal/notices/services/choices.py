"""What a user wants to be told of."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.db import transaction

from portal.accounts.audit import audit_write
from portal.accounts.models import Audited, User
from portal.notices.models import NoticeChoice
from portal.notices.states import JobNotice


def notice_choice_set(*, user: User, kinds: Collection[str], now: datetime) -> NoticeChoice:
    """Tell the user of these kinds from now on, and of no others."""
    chosen = [str(kind) for kind in JobNotice if kind in kinds]
    with transaction.atomic():
        NoticeChoice.objects.get_or_create(user=user)
        choice = NoticeChoice.objects.select_for_update().get(user=user)
        before, choice.kinds = choice.kinds, chosen
        if before != chosen:
            choice.save(update_fields=["kinds"])
            audit_write(
                Audited.NOTICES, actor=user.username, target=user.username, now=now, before={"kinds": before},
                after={"kinds": chosen},
            )  # fmt: skip
    return choice
