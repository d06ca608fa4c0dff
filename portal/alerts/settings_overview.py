"""The settings page: environment variables with meaning and value, for those who may read them. Secrets are left out,
and URLs that contain any show only where they lead."""

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
from portal.env.values import PERIODS


@dataclass(frozen=True, slots=True)
class Shown:
    """A setting: its group, environment variable, meaning, and value as text."""

    group: Any
    name: str
    meaning: Any
    value: str


_Row = tuple[str, Any, Callable[[], Any]]


def _place(url: str) -> str:
    """Scheme, host and port of a URL, never the user or password."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}"


def _database() -> str:
    row = settings.DATABASES["default"]
    return f"{connection.vendor} {row['HOST']}" if row.get("HOST") else connection.vendor


def _set(name: str) -> Callable[[], Any]:
    return lambda: getattr(settings, name)


def _rate(name: str) -> Callable[[], Any]:
    """A rate in the format of the environment: ``10/min``."""

    def value() -> str:
        count, seconds = getattr(settings, name)
        return f"{count}/{next(word for word, span in PERIODS.items() if span == seconds)}"

    return value


def _grants() -> list[str]:
    told = settings.OIDC_GRANTS.items()
    return [f"{group}: {' + '.join(':'.join(filter(None, grant)) for grant in grants)}" for group, grants in told]


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
            ("BERTH_REDIS_NODES_URL", _("where nodes reach it"), lambda: _place(settings.REDIS_NODES_URL)),
            ("BERTH_REDIS_CA", _("file of the authority of its certificate; empty: the system's"), _set("REDIS_CA")),
            ("BERTH_PORTAL_CA", _("file of the authority of the portal's own certificate; empty: the system's"),
             _set("PORTAL_CA")),
            ("BERTH_REDIS_ACCOUNTS", _("each node has an account of its own there"), _set("REDIS_ACCOUNTS")),
            ("BERTH_ALLOWED_HOSTS", _("names that the portal answers to"), _set("ALLOWED_HOSTS")),
            ("BERTH_TRUSTED_ORIGINS", _("origins that may post and open websockets"), _set("CSRF_TRUSTED_ORIGINS")),
            ("BERTH_TRUSTED_PROXIES", _("whose X-Forwarded-For and -Proto are believed"), _set("TRUSTED_PROXIES")),
            ("BERTH_PASSWORDS", _("whether people log in with a password"), _set("PASSWORDS")),
            ("BERTH_KEYS_DIR", _("where the portal's keys lie"), _set("KEYS_DIR")),
            ("BERTH_STATIC_DIR", _("where the pages' files are collected"), _set("STATIC_ROOT")),
            ("BERTH_DATABASE_POOL", _("connections to PostgreSQL that a process keeps at most"),
             _set("DATABASE_POOL")),
            ("BERTH_DATABASE_PREPARE", _("queries are prepared on PostgreSQL"), _set("DATABASE_PREPARE")),
            ("BERTH_METRICS_PORT", _("on which a process shows figures to Prometheus; 0: none"), _set("METRICS_PORT")),
            ("BERTH_METRICS_BIND", _("the address of that port"), _set("METRICS_BIND")),
            ("BERTH_BACKUP_DAYS", _("days after which an alert says that the last backup is old; 0: never"),
             _set("BACKUP_DAYS")),
            ("BERTH_LOG_LEVEL", _("of the portal's own processes"), _set("LOG_LEVEL")),
            ("BERTH_DEBUG", _("for development only"), _set("DEBUG")),
        ),
    ),
    (
        _("Log-in by a provider"),
        (
            ("BERTH_OIDC_ISSUER", _("the provider, as it calls itself; empty: none"), _set("OIDC_ISSUER")),
            ("BERTH_OIDC_CLIENT_ID", _("the portal as the provider knows it"), _set("OIDC_CLIENT_ID")),
            ("BERTH_OIDC_NAME", _("what people call the provider"), _set("OIDC_NAME")),
            ("BERTH_OIDC_SCOPES", _("what is asked for there"), _set("OIDC_SCOPES")),
            ("BERTH_OIDC_USER_CLAIM", _("the claim that names a new account"), _set("OIDC_USER_CLAIM")),
            ("BERTH_OIDC_GROUPS_CLAIM", _("the claim with a person's groups"), _set("OIDC_GROUPS_CLAIM")),
            ("BERTH_OIDC_ROLES", _("what each group gives"), _grants),
            ("BERTH_OIDC_ACCOUNTS", _("whose first log-in makes an account"), _set("OIDC_ACCOUNTS")),
            ("BERTH_OIDC_HOURS", _("hours after which one logs in again"), _set("OIDC_HOURS")),
            ("BERTH_OIDC_CLOCK_SKEW", _("seconds by which the two clocks may differ"), _set("OIDC_CLOCK_SKEW_S")),
        ),
    ),
    (
        _("Scheduling and servers"),
        (
            ("BERTH_NODE_LOST_AFTER", _("seconds without a report after which a server is given up"),
             _set("NODE_LOST_AFTER_S")),
            ("BERTH_REGISTRY_MIRROR", _("mirrors of image registries, which servers ask first"),
             lambda: ", ".join(f"{host}={mirror}" for host, mirror in settings.REGISTRY_MIRRORS.items())),
            ("BERTH_REGISTRY_RETRY", _("seconds for which a registry that does not answer is asked again"),
             _set("REGISTRY_RETRY_S")),
            ("BERTH_NODE_OUT_USERS", _("after failed starts of so many users a server takes nothing new"),
             _set("NODE_OUT_USERS")),
            ("BERTH_NODE_OUT_WINDOW", _("seconds within which these failures count"), _set("NODE_OUT_WINDOW_S")),
            ("BERTH_NODE_TRIAL_AFTER", _("seconds after which such a server is tried again, longer each time"),
             _set("NODE_TRIAL_AFTER_S")),
            ("BERTH_SCHEDULER_LEASE", _("seconds after which another scheduler takes over from a silent one"),
             _set("LEASE_SECONDS")),
            ("BERTH_GPU_RESERVE", _("percent of a GPU's share of CPU and memory that is kept for it while it is idle"),
             _set("GPU_RESERVE_PERCENT")),
            ("BERTH_GANG_PREPARE_TIMEOUT",
             _("seconds that the containers of an attempt may take to be prepared, and again to start"),
             _set("GANG_PREPARE_TIMEOUT_S")),
            ("BERTH_FAULT_RETRIES", _("so often a job is tried again for ends that seem to be others' doing"),
             _set("FAULT_RETRIES")),
            ("BERTH_UNSAVED_WORK_CAP", _("seconds for which work without a checkpoint counts at most"),
             _set("UNSAVED_WORK_CAP_S")),
            ("BERTH_GRACE_PERIOD", _("seconds between the signal to end and the end, where a job says nothing"),
             _set("DEFAULT_GRACE_S")),
            ("BERTH_GRACE_PERIOD_MAX", _("the longest that a job may ask for"), _set("MAX_GRACE_S")),
            ("BERTH_MIN_RUN_TIME_MAX", _("the longest time, in seconds, in which a job asks not to be preempted"),
             _set("MAX_MIN_RUN_S")),
            ("BERTH_GROW_EVERY", _("seconds before an elastic job that grew or shrank may grow"), _set("GROW_EVERY_S")),
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
            ("BERTH_LOG_QUOTA_GB", _("GB of logs that are kept of a virtual cluster that has no rule of its own"),
             _set("LOG_QUOTA_GB")),
            ("BERTH_JOB_FOLDER_DAYS", _("days for which a job's folder is kept after its end; 0: Berth deletes none"),
             _set("JOB_FOLDER_DAYS")),
            ("BERTH_IDLE_PERCENT", _("percent of utilisation below which a GPU counts as idle"), _set("IDLE_PERCENT")),
            ("BERTH_IDLE_START_MINUTES", _("first minutes of a task that count as work for the idle policy"),
             _set("IDLE_START_MINUTES")),
            ("BERTH_USAGE_KEPT", _("seconds that a usage report may be old"), _set("USAGE_KEPT_S")),
            ("BERTH_CODE_MAX_MB", _("MB of uploaded code, packed"), lambda: settings.CODE_MAX_BYTES >> 20),
            ("BERTH_CODE_UNPACKED_MAX_MB", _("MB of it, unpacked"), lambda: settings.CODE_UNPACKED_MAX_BYTES >> 20),
            ("BERTH_CODE_MAX_FILES", _("files and folders in it"), _set("CODE_MAX_ENTRIES")),
            ("BERTH_CODE_USER_GB", _("GB of code that one user may have in the portal"),
             lambda: settings.CODE_USER_BYTES >> 30),
            ("BERTH_CODE_KEPT_DAYS", _("days for which code that no job uses is kept"), _set("CODE_KEPT_DAYS")),
            ("BERTH_SHELL_IDLE", _("seconds after which an idle terminal is closed"), _set("SHELL_IDLE_S")),
            ("BERTH_UID_FIRST", _("number (uid) after which new accounts get their own"), _set("UID_FIRST")),
            ("BERTH_UID_LAST", _("the largest number that one gets"), _set("UID_LAST")),
            ("BERTH_SOCKETS_PER_USER", _("live views that one user may have open"), _set("SOCKETS_PER_USER")),
            ("BERTH_DOWNLOADS_PER_USER", _("downloads that one user may have under way"), _set("DOWNLOADS_PER_USER")),
            ("BERTH_DOWNLOAD_HOURS", _("hours after which a download is broken off"), _set("DOWNLOAD_HOURS")),
            ("BERTH_LOGIN_RATE", _("tries to log in, for each account and address"), _rate("LOGIN_RATE")),
            ("BERTH_SUBMIT_RATE", _("submissions of one user"), _rate("SUBMIT_RATE")),
            ("BERTH_WAITING_TASKS", _("tasks that one user may have waiting"), _set("WAITING_TASKS")),
            ("BERTH_CODE_RATE", _("uploads of code of one user"), _rate("CODE_RATE")),
            ("BERTH_ESTIMATE_RATE", _("questions of one user what would become of a job"), _rate("ESTIMATE_RATE")),
            ("BERTH_LOG_SEARCH_RATE", _("searches of one user in logs"), _rate("LOG_SEARCH_RATE")),
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
            ("BERTH_WEBHOOK_ALLOW", _("networks in which the webhook may be although they are not of the internet"),
             _set("WEBHOOK_ALLOW")),
            ("BERTH_NOTICE_DAYS", _("days for which what was sent is remembered"), _set("NOTICE_DAYS")),
        ),
    ),
)  # fmt: skip


def settings_shown(*, user: User) -> list[Shown]:
    """All settings, by group. Raises NotFound for those who may not read them."""
    if not allowed_everywhere(user, Action.SETTINGS_READ):
        raise NotFound("list of settings")
    return list(_shown())


def _shown() -> Iterator[Shown]:
    for group, rows in GROUPS:
        for name, meaning, value in rows:
            yield Shown(group, name, meaning, _words(value()))


def _words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(str(one) for one in value)
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
