"""Settings that cannot work together, as Django system checks. Each has an id and says what to change."""

from __future__ import annotations

from collections.abc import Sequence
from email.utils import parseaddr
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Info, Tags, Warning, register
from django.core.exceptions import ValidationError
from django.core.validators import validate_email


@register(Tags.compatibility)
def settings_fit(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """The portal's own settings against each other."""
    return [*_grace(), *_debug(), *_data(), *_mail()]


@register(Tags.security, deploy=True)
def mail_is_sent(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Asked by ``manage.py check --deploy``."""
    if settings.EMAIL_ON:
        return []
    return [
        Info(
            "No e-mail is sent: BERTH_EMAIL_URL is not set.",
            hint="Give a mail server, such as smtp+tls://user:password@host:587, and BERTH_EMAIL_FROM.",
            id="berth.I001",
        )
    ]


def _grace() -> list[CheckMessage]:
    if settings.DEFAULT_GRACE_S <= settings.MAX_GRACE_S:
        return []
    return [
        Error(
            f"BERTH_GRACE_PERIOD ({settings.DEFAULT_GRACE_S} s) is longer than BERTH_GRACE_PERIOD_MAX "
            f"({settings.MAX_GRACE_S} s).",
            hint="Lower the first or raise the second.",
            id="berth.E001",
        )
    ]


def _debug() -> list[CheckMessage]:
    if not (settings.DEBUG and settings.HTTPS):
        return []
    return [
        Warning(
            "BERTH_DEBUG is on while BERTH_URL is https: debug pages show settings and code to anybody.",
            hint="Unset BERTH_DEBUG on a portal that others reach.",
            id="berth.W001",
        )
    ]


def _mail() -> list[CheckMessage]:
    if not settings.EMAIL_ON:
        return []
    try:
        validate_email(parseaddr(settings.EMAIL_FROM)[1])
    except ValidationError:
        return [
            Error(
                f"BERTH_EMAIL_URL is set, and BERTH_EMAIL_FROM ({settings.EMAIL_FROM!r}) is no address.",
                hint="Give whom mail comes from, such as Berth <berth@example.org>.",
                id="berth.E003",
            )
        ]
    return []


def _data() -> list[CheckMessage]:
    if settings.DATA_DIR.is_dir():
        return []
    return [
        Error(
            f"BERTH_DATA_DIR ({settings.DATA_DIR}) is not a folder.",
            hint="All processes of the portal share it: logs and keys lie there.",
            id="berth.E002",
        )
    ]
