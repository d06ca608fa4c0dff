"""How the portal was set up, for those who may read it: settings of the environment by name, with what they do. Secrets
are not among them, and of addresses that carry some only where they lead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import connection
from django.utils.translation import gettext_lazy as _

from portal.accounts.models import User
from portal.accounts.rights import Action, allowed_everywhere
from portal.common.errors import NotFound


@dataclass(frozen=True, slots=True)
class Shown:
    """A setting: its group, the variable of the environment, what it does, and its value in words."""

    group: Any
    name: str
    meaning: Any
    value: str


_Row = tuple[str, Any, Callable[[], Any]]


def _place(url: str) -> str:
    """Of an address the kind and the server, never who signs in there."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}"


def _database() -> str:
    row = settings.DATABASES["default"]
    return f"{connection.vendor} {row['HOST']}" if row.get("HOST") else connection.vendor


def _set(name: str) -> Callable[[], Any]:
    return lambda: getattr(settings, name)


GROUPS: tuple[tuple[Any, tuple[_Row, ...]], ...] = (
    (
        _("The portal"),
        (
            ("BERTH_CLUSTER", _("the cluster's name"), _set("CLUSTER_NAME")),
            ("BERTH_URL", _("where people reach the portal"), _set("URL")),
            ("BERTH_TIME_ZONE", _("in which the portal writes times into sentences"), _set("TIME_ZONE")),
            ("BERTH_DATA_DIR", _("where logs, keys and, with SQLite, the database lie"), _set("DATA_DIR")),
            ("BERTH_DATABASE_URL", _("the database"), _database),
            ("BERTH_REDIS_URL", _("the broker, live logs and samples"), lambda: _place(settings.REDIS_URL)),
            ("BERTH_DEBUG", _("for development only"), _set("DEBUG")),
        ),
    ),
    (
        _("Scheduling and servers"),
        (
            ("BERTH_NODE_LOST_AFTER", _("seconds without a report after which a server is given up"),
             _set("NODE_LOST_AFTER_S")),
            ("BERTH_NODE_OUT_USERS", _("after failed starts of so many users a server takes nothing new"),
             _set("NODE_OUT_USERS")),
            ("BERTH_NODE_OUT_WINDOW", _("seconds within which these failures count"), _set("NODE_OUT_WINDOW_S")),
            ("BERTH_NODE_TRIAL_AFTER", _("seconds after which such a server is tried again, longer each time"),
             _set("NODE_TRIAL_AFTER_S")),
            ("BERTH_GRACE_PERIOD", _("seconds between the signal to end and the end, where a job says nothing"),
             _set("DEFAULT_GRACE_S")),
            ("BERTH_GRACE_PERIOD_MAX", _("the longest that a job may ask for"), _set("MAX_GRACE_S")),
            ("BERTH_MIN_RUN_TIME_MAX", _("the longest time, in seconds, in which a job asks not to be preempted"),
             _set("MAX_MIN_RUN_S")),
            ("BERTH_FAIR_SHARE_HALF_LIFE", _("hours after which past use weighs half"), _set("FAIR_SHARE_HALF_LIFE_H")),
            ("BERTH_FIRST_TO_PAY", _("who gives GPUs back first: the largest share, or the least work lost"),
             _set("FIRST_TO_PAY")),
            ("BERTH_BACKFILL", _("small jobs pass a large one that waits, without delaying it"), _set("BACKFILL")),
            ("BERTH_ESTIMATE_SECONDS", _("seconds that estimates of starts may take"), _set("ESTIMATE_SECONDS")),
        ),
    ),
    (
        _("Limits and keeping"),
        (
            ("BERTH_LOG_RETENTION_DAYS", _("days for which logs are kept"), _set("LOG_RETENTION_DAYS")),
            ("BERTH_IDLE_PERCENT", _("percent of utilisation below which a GPU counts as idle"), _set("IDLE_PERCENT")),
            ("BERTH_CODE_MAX_MB", _("MB of uploaded code, packed"), lambda: settings.CODE_MAX_BYTES >> 20),
            ("BERTH_CODE_KEPT_DAYS", _("days for which code that no job uses is kept"), _set("CODE_KEPT_DAYS")),
            ("BERTH_SHELL_IDLE", _("seconds after which an idle terminal is closed"), _set("SHELL_IDLE_S")),
            ("BERTH_SOCKETS_PER_USER", _("live views that one user may have open"), _set("SOCKETS_PER_USER")),
            ("BERTH_DOWNLOADS_PER_USER", _("downloads that one user may have under way"), _set("DOWNLOADS_PER_USER")),
            ("BERTH_DOWNLOAD_HOURS", _("hours after which a download is broken off"), _set("DOWNLOAD_HOURS")),
            ("BERTH_CURRENCY", _("of prices in usage reports"), _set("CURRENCY")),
        ),
    ),
    (
        _("Notices"),
        (
            ("BERTH_EMAIL_URL", _("the mail server; empty: no e-mail is sent"),
             lambda: settings.EMAIL_HOST if settings.EMAIL_ON else ""),
            ("BERTH_EMAIL_FROM", _("whom mails are from"), _set("EMAIL_FROM")),
            ("BERTH_EMAIL_PER_MINUTE", _("mails that one person gets in a minute at most"), _set("MAILS_PER_MINUTE")),
            ("BERTH_NOTICE_DAYS", _("days for which what was sent is remembered"), _set("NOTICE_DAYS")),
        ),
    ),
)  # fmt: skip


def settings_shown(*, user: User) -> list[Shown]:
    """All of them, by group. Raises NotFound for those who may not read them."""
    if not allowed_everywhere(user, Action.SETTINGS_READ):
        raise NotFound("list of settings")
    return list(_shown())


def _shown() -> Iterator[Shown]:
    for group, rows in GROUPS:
        for name, meaning, value in rows:
            yield Shown(group, name, meaning, _words(value()))


def _words(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
