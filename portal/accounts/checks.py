"""Django system checks of accounts, for portals with more than one user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Tags, Warning, register
from django.db import DatabaseError

from portal.accounts.models import User
from portal.common.sentences import some_of


@register(Tags.security, deploy=True)
def accounts_have_uids(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Warns of active accounts without a uid; runs with ``manage.py check --deploy``. Silent if the database does not
    exist yet."""
    try:
        names = [*User.objects.filter(uid=None, is_active=True).order_by("username").values_list("username", flat=True)]
    except DatabaseError:
        return []
    if not names:
        return []
    return [
        Warning(
            f"Accounts without a uid share 65534: {some_of(names, 5)}. Where their jobs see the same storage, one "
            "reads what another wrote.",
            hint="Give each one of its own while none of its jobs lives: manage.py account NAME --own-uid, then chown "
            "its folders.",
            id="berth.W004",
        )
    ]
