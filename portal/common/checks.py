"""Django system checks for settings that cannot work together. Each has an id and says what to change; on an error no
process of the portal starts."""

from __future__ import annotations

from collections.abc import Sequence
from email.utils import parseaddr
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Info, Tags, Warning, register
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from redis.exceptions import RedisError, ResponseError

from portal.common.wake import redis_once


@register(Tags.compatibility)
def settings_fit(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Checks the portal's own settings against each other."""
    return [*_grace(), *_debug(), *_data(), *_mail(), *_sign_in(), *_uids()]


def settings_stop() -> None:
    """Exits with a sentence for each error, if settings cannot work together. Unlike all of Django's checks it contacts
    nothing and loads nothing."""
    errors = [one for one in settings_fit(None) if one.is_serious()]
    if errors:
        raise SystemExit("\n".join(f"berth: {one.msg} {one.hint} ({one.id})" for one in errors))


@register(Tags.security, deploy=True)
def mail_is_sent(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Notes that no mail is sent; runs with ``manage.py check --deploy``."""
    if settings.EMAIL_ON:
        return []
    return [
        Info(
            "No e-mail is sent: BERTH_EMAIL_URL is not set.",
            hint="Give a mail server, such as smtp+tls://user:password@host:587, and BERTH_EMAIL_FROM.",
            id="berth.I001",
        )
    ]


@register(Tags.security, deploy=True)
def redis_keeps_nodes_apart(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Checks the running Redis's access control; runs with ``manage.py check --deploy``."""
    try:
        told: Any = redis_once().execute_command("ACL", "LIST")  # type: ignore[no-untyped-call]
    except ResponseError:
        return [_no_accounts()] if settings.REDIS_ACCOUNTS else []
    except RedisError as error:
        return [Warning(f"BERTH_REDIS_URL: Redis does not answer ({error}).", hint=_bundled_redis(), id="berth.W002")]
    default = next((line for line in map(_text, told) if line.startswith("user default ")), "")
    if "on" not in default.split() or "nopass" not in default.split():
        return []
    return [
        Warning(
            "Redis lets anybody in without a password, so that accounts of nodes keep nobody out.",
            hint="Give it a password (requirepass), or switch its account `default` off and give the portal its own.",
            id="berth.W003",
        )
    ]


@register(Tags.security, deploy=True)
def data_is_closed(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Checks that other users cannot read logs, or the database where it is an SQLite file; runs with ``manage.py check
    --deploy``."""
    database = settings.DATABASES["default"]
    kept = [settings.LOG_DIR, *([Path(database["NAME"])] if database["ENGINE"].endswith("sqlite3") else [])]
    seen = [str(one) for one in kept if _others_read(one)]
    if not seen:
        return []
    return [
        Warning(
            f"Everybody on this machine can read {' and '.join(seen)}.",
            hint=f"Close the folder to others: chmod o-rwx {settings.DATA_DIR}",
            id="berth.W005",
        )
    ]


def _others_read(path: Path) -> bool:
    """Whether other users can read the path: its own mode allows it, and all folders above let them through."""
    try:
        return bool(path.stat().st_mode & 0o004) and all(one.stat().st_mode & 0o001 for one in path.parents)
    except OSError:
        return False


def _bundled_redis() -> str | None:
    """A hint at the address of the embedded stack's Redis, if this is its data folder."""
    url = settings.DATA_DIR / "redis" / "url"
    return f"Beside make demo or make run: set BERTH_REDIS_URL_FILE={url}." if url.exists() else None


def _text(line: bytes | str) -> str:
    return line.decode() if isinstance(line, bytes) else line


def _no_accounts() -> CheckMessage:
    return Error(
        "BERTH_REDIS_ACCOUNTS is on, and Redis lets the portal make no accounts (ACL SETUSER).",
        hint="Allow the portal's account +acl, or set BERTH_REDIS_ACCOUNTS=0: all nodes then share one account.",
        id="berth.E008",
    )


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
        validate_email("" if "\n" in settings.EMAIL_FROM else parseaddr(settings.EMAIL_FROM)[1])
    except ValidationError:
        return [
            Error(
                f"BERTH_EMAIL_URL is set, and BERTH_EMAIL_FROM ({settings.EMAIL_FROM!r}) is no address.",
                hint="Give whom mail comes from, such as Berth <berth@example.org>.",
                id="berth.E003",
            )
        ]
    return []


def _sign_in() -> list[CheckMessage]:
    told: list[CheckMessage] = []
    issuer = urlsplit(settings.OIDC_ISSUER)
    if bool(settings.OIDC_ISSUER) != bool(settings.OIDC_CLIENT_ID):
        told.append(
            Error(
                "Of BERTH_OIDC_ISSUER and BERTH_OIDC_CLIENT_ID one is set and the other is not.",
                hint="Set both, or none for a portal without a sign-in provider.",
                id="berth.E004",
            )
        )
    if issuer.scheme != "https" and issuer.hostname and issuer.hostname not in {"127.0.0.1", "::1", "localhost"}:
        told.append(
            Error(
                f"BERTH_OIDC_ISSUER ({settings.OIDC_ISSUER}) is not https: who listens on the way signs in as anybody.",
                hint="Give the provider's https address.",
                id="berth.E005",
            )
        )
    if settings.OIDC_ISSUER and "openid" not in settings.OIDC_SCOPES:
        told.append(
            Error(
                f"BERTH_OIDC_SCOPES ({','.join(settings.OIDC_SCOPES)}) does not ask for openid: nobody is signed in.",
                hint="Add openid to it, or unset it.",
                id="berth.E007",
            )
        )
    if not settings.PASSWORDS and not settings.OIDC_ISSUER:
        told.append(
            Error(
                "BERTH_PASSWORDS is off and BERTH_OIDC_ISSUER is not set: nobody could log in.",
                hint="Set up a sign-in provider, or let people log in by password.",
                id="berth.E006",
            )
        )
    return told


def _uids() -> list[CheckMessage]:
    numbers = range(settings.UID_FIRST, settings.UID_LAST + 1)
    if numbers and 65_534 not in numbers and 65_535 not in numbers:
        return []
    return [
        Error(
            f"BERTH_UID_FIRST and BERTH_UID_LAST ({settings.UID_FIRST}-{settings.UID_LAST}) leave new accounts no uid, "
            "or 65534 or 65535, which are nobody's.",
            hint="Give a range that is free on all servers, such as 70000-99999.",
            id="berth.E009",
        )
    ]


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
