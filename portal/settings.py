"""All settings, from the environment. Each stands with its meaning in ``docs/admin/settings.md``."""

from __future__ import annotations

import errno
import secrets
from pathlib import Path
from urllib.parse import quote, urlsplit

from nodes.protocol.envelope import PortalKey
from nodes.protocol.names import CELERY_DEFAULTS, REPORTS_QUEUE, transport_options
from nodes.protocol.states import ContainerState
from portal.common.priorities import PRIORITY_CLASSES
from portal.env.addresses import (
    env_authority,
    env_bind,
    env_hosts,
    env_issuer,
    env_mail,
    env_mirrors,
    env_networks,
    env_origins,
    env_redis,
    env_url,
)
from portal.env.database import env_database
from portal.env.grants import env_grants
from portal.env.keys import env_key, secret_hex, secret_text
from portal.env.values import (
    HUNDRED_YEARS_D,
    BadSetting,
    env_bool,
    env_filled,
    env_int,
    env_level,
    env_list,
    env_name,
    env_path,
    env_rate,
    env_secret,
    env_str,
    env_time_zone,
    env_word,
)

BASE_DIR = Path(__file__).resolve().parent.parent
VERSION = "0.1.0"

# ---------------------------------------------------------------- where things lie
DATA_DIR = env_path("BERTH_DATA_DIR", BASE_DIR / "data")
KEYS_DIR = env_path("BERTH_KEYS_DIR", DATA_DIR / "keys")
LOG_DIR = DATA_DIR / "logs"
JOBS_DIR = DATA_DIR / "jobs"
CODE_DIR = DATA_DIR / "code"
METRICS_DIR = DATA_DIR / "metrics"

# ---------------------------------------------------------------- who we are
DEBUG = env_bool("BERTH_DEBUG", False)
CLUSTER_NAME = env_name("BERTH_CLUSTER", "berth")
URL = env_url("BERTH_URL", "http://127.0.0.1:8000")
_url = urlsplit(URL)
HTTPS = _url.scheme == "https"
_host = f"[{_url.hostname}]" if ":" in (_url.hostname or "") else _url.hostname or ""

try:
    SECRET_KEY = env_key(
        "BERTH_SECRET_KEY", KEYS_DIR / "django.key", lambda: secrets.token_urlsafe(50), secret_text, "a text"
    )
    PORTAL_KEY = env_key(
        "BERTH_PORTAL_KEY",
        KEYS_DIR / "portal.key",
        lambda: PortalKey.generate().secret,
        PortalKey.load,
        "32 bytes in base64",
    )
    SEALING_KEY = env_key(
        "BERTH_SEALING_KEY",
        KEYS_DIR / "sealing.key",
        lambda: secrets.token_hex(32),
        secret_hex,
        "64 hexadecimal digits",
    )
except OSError as error:
    cure = "Make room on its disk." if error.errno == errno.ENOSPC else "Give a folder that this user may write."
    named = f"BERTH_DATA_DIR={str(DATA_DIR)!r}" if KEYS_DIR.parent == DATA_DIR else f"BERTH_KEYS_DIR={str(KEYS_DIR)!r}"
    raise BadSetting(f"{named}: cannot keep the portal's keys there ({error.strerror}). {cure}") from None

# ---------------------------------------------------------------- applications
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "portal.common.pages_files.PagesFilesConfig",
    "django_htmx",
    "channels",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "portal.common",
    "portal.accounts",
    "portal.data_folder",
    "portal.hardware",
    "portal.teams",
    "portal.secrets",
    "portal.images",
    "portal.storages",
    "portal.people",
    "portal.joining",
    "portal.cluster",
    "portal.code",
    "portal.jobs",
    "portal.templates",
    "portal.files",
    "portal.node_orders",
    "portal.logs",
    "portal.metrics",
    "portal.usage",
    "portal.idle",
    "portal.parking",
    "portal.job_pages",
    "portal.notices",
    "portal.scheduler",
    "portal.alerts",
    "portal.forecast",
    "portal.openpai",
    "portal.upkeep",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "portal.common.compression.CompressedPages",
    "portal.common.middleware.SecurityHeaders",
    "portal.common.origin.RequestOrigin",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "portal.common.languages.PageLanguage",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "portal.accounts.kept.KeptForms",
    "portal.common.pages.LogInWhole",
    "portal.common.pages.RefusalPages",
]
ROOT_URLCONF = "portal.urls"
ASGI_APPLICATION = "portal.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "frontend" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "portal.common.context.site",
                "portal.people.menu.manage_menu",
            ],
        },
    }
]

# ---------------------------------------------------------------- database
DATABASE_POOL = env_int("BERTH_DATABASE_POOL", 20, most=10_000)
DATABASE_PREPARE = env_bool("BERTH_DATABASE_PREPARE", True)
DATABASES = {
    "default": env_database(
        "BERTH_DATABASE_URL", "BERTH_DATABASE_PASSWORD", f"sqlite:///{quote(str(DATA_DIR / 'berth.sqlite3'))}"
    )
}
if DATABASES["default"]["ENGINE"].endswith("postgresql"):
    DATABASES["default"]["OPTIONS"] |= {
        # A pool: under ASGI each request has a thread of its own, which would open a connection of its own.
        "pool": {"min_size": 1, "max_size": DATABASE_POOL, "timeout": 10} if DATABASE_POOL else False,
        "prepare_threshold": 0 if DATABASE_PREPARE else None,
    }
    # A pooler hands the connection on between two pieces of what is read by a cursor outside a transaction.
    DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = not DATABASE_PREPARE
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# ---------------------------------------------------------------- Redis: broker, channel layer, log streams
REDIS_CA = env_authority("BERTH_REDIS_CA")
REDIS_URL = env_redis("BERTH_REDIS_URL", "redis://127.0.0.1:6379/0", ca=REDIS_CA, password=True)
REDIS_NODES_URL = env_redis("BERTH_REDIS_NODES_URL", REDIS_URL, ca=REDIS_CA, password=False)
PORTAL_CA = env_authority("BERTH_PORTAL_CA", maybe=True)
REDIS_ACCOUNTS = env_bool("BERTH_REDIS_ACCOUNTS", True)
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [REDIS_URL], "prefix": "berth"},
    }
}
CELERY = {
    **CELERY_DEFAULTS,
    "broker_url": REDIS_URL,
    "broker_transport": "portal.common.lanes:LaneTransport",
    "broker_transport_options": transport_options(),
    "task_default_queue": "control",
    "task_routes": {
        "scheduler.*": {"queue": "scheduler"},
        "reports.*": {"queue": REPORTS_QUEUE},
    },
    "beat_schedule": {
        "look": {"task": "scheduler.look", "schedule": 1.0, "options": {"expires": 1}},
        "pulse": {"task": "reports.pulse", "schedule": 5.0, "options": {"expires": 5}},
        "archive": {"task": "control.archive_sweep", "schedule": 2.0, "options": {"expires": 2}},
        "doomed": {"task": "control.find_doomed", "schedule": 15.0, "options": {"expires": 15}},
        "estimates": {"task": "control.estimate_starts", "schedule": 30.0, "options": {"expires": 30}},
        "old_code": {"task": "control.code_expire", "schedule": 600.0, "options": {"expires": 600}},
        "old_logs": {"task": "control.logs_expire", "schedule": 60.0, "options": {"expires": 60}},
        "log_quotas": {"task": "control.logs_give_way", "schedule": 300.0, "options": {"expires": 300}},
        "proofs": {"task": "control.storages_prove", "schedule": 60.0, "options": {"expires": 60}},
        "old_folders": {"task": "control.folders_expire", "schedule": 300.0, "options": {"expires": 300}},
        "samples": {"task": "control.samples_fold", "schedule": 20.0, "options": {"expires": 20}},
        "idle": {"task": "control.idle_judge", "schedule": 20.0, "options": {"expires": 20}},
        "accounts": {"task": "control.redis_accounts", "schedule": 5.0, "options": {"expires": 5}},
        "gpus": {"task": "control.gpus_count", "schedule": 60.0, "options": {"expires": 60}},
        "usage": {"task": "control.usage_roll", "schedule": 60.0, "options": {"expires": 60}},
        "notices": {"task": "control.notices_gather", "schedule": 2.0, "options": {"expires": 2}},
        "mails": {"task": "control.mails_send", "schedule": 2.0, "options": {"expires": 2}},
        "webhook": {"task": "control.webhook_send", "schedule": 2.0, "options": {"expires": 2}},
        "old_notices": {"task": "control.notices_expire", "schedule": 600.0, "options": {"expires": 600}},
        "old_sessions": {"task": "control.sessions_expire", "schedule": 600.0, "options": {"expires": 600}},
    },
    "beat_scheduler": "portal.common.beat:SteadyScheduler",
}

# ---------------------------------------------------------------- scheduling and nodes
NODE_LOST_AFTER_S = env_int("BERTH_NODE_LOST_AFTER", 60, least=15)
REGISTRY_MIRRORS = env_mirrors("BERTH_REGISTRY_MIRROR")
NODE_OUT_USERS = env_int("BERTH_NODE_OUT_USERS", 3)
NODE_OUT_WINDOW_S = env_int("BERTH_NODE_OUT_WINDOW", 1800, least=60)
NODE_TRIAL_AFTER_S = env_int("BERTH_NODE_TRIAL_AFTER", 1800, least=10)
FAULT_RETRIES = env_int("BERTH_FAULT_RETRIES", 10)
REGISTRY_RETRY_S = env_int("BERTH_REGISTRY_RETRY", 1800)
GROW_EVERY_S = env_int("BERTH_GROW_EVERY", 600)
GANG_PREPARE_TIMEOUT_S = env_int("BERTH_GANG_PREPARE_TIMEOUT", 1800, least=10)
METRICS_PORT = env_int("BERTH_METRICS_PORT", 0, most=65_535)
METRICS_BIND = env_bind("BERTH_METRICS_BIND", "127.0.0.1")
BACKUP_DAYS = env_int("BERTH_BACKUP_DAYS", 7, most=HUNDRED_YEARS_D)
DEFAULT_GRACE_S = env_int("BERTH_GRACE_PERIOD", 30)
MAX_GRACE_S = env_int("BERTH_GRACE_PERIOD_MAX", 600)
MAX_MIN_RUN_S = env_int("BERTH_MIN_RUN_TIME_MAX", 3600)
FAIR_SHARE_HALF_LIFE_H = env_int("BERTH_FAIR_SHARE_HALF_LIFE", 168, least=1, most=HUNDRED_YEARS_D)
UNSAVED_WORK_CAP_S = env_int("BERTH_UNSAVED_WORK_CAP", 14_400)
FIRST_TO_PAY = env_word("BERTH_FIRST_TO_PAY", "share", ("share", "loss"))
BACKFILL = env_bool("BERTH_BACKFILL", True)
GPU_RESERVE_PERCENT = env_int("BERTH_GPU_RESERVE", 50, most=100)
ESTIMATE_SECONDS = env_int("BERTH_ESTIMATE_SECONDS", 10, least=1)
LEASE_SECONDS = env_int("BERTH_SCHEDULER_LEASE", 8, least=2)
# Below 1000 are the system's, 65534 is nobody; from 100000 on Debian gives subordinate ids, and directories of people
# their own (200000 and more).
UID_FIRST = env_int("BERTH_UID_FIRST", 70_000, least=1000, most=2**31 - 1)
UID_LAST = env_int("BERTH_UID_LAST", 99_999, least=1000, most=2**31 - 1)
SOCKETS_PER_USER = env_int("BERTH_SOCKETS_PER_USER", 100, least=10)
DOWNLOADS_PER_USER = env_int("BERTH_DOWNLOADS_PER_USER", 8, least=1)
DOWNLOAD_HOURS = env_int("BERTH_DOWNLOAD_HOURS", 12, least=1, most=HUNDRED_YEARS_D)
SHELL_IDLE_S = env_int("BERTH_SHELL_IDLE", 3600, least=10)
LOG_RETENTION_DAYS = env_int("BERTH_LOG_RETENTION_DAYS", 90, least=1, most=HUNDRED_YEARS_D)
LOG_QUOTA_GB = env_int("BERTH_LOG_QUOTA_GB", 100, most=1_000_000)
JOB_FOLDER_DAYS = env_int("BERTH_JOB_FOLDER_DAYS", 30, most=HUNDRED_YEARS_D)
IDLE_PERCENT = env_int("BERTH_IDLE_PERCENT", 5, most=100)
IDLE_START_MINUTES = env_int("BERTH_IDLE_START_MINUTES", 10, most=1_000_000)
CURRENCY = env_str("BERTH_CURRENCY", "")
USAGE_KEPT_S = env_int("BERTH_USAGE_KEPT", 120)
MAX_JOB_FILE_BYTES = 1_000_000

# ---------------------------------------------------------------- code that comes with jobs
CODE_MAX_BYTES = env_int("BERTH_CODE_MAX_MB", 100, least=1) << 20
CODE_UNPACKED_MAX_BYTES = env_int("BERTH_CODE_UNPACKED_MAX_MB", 1000, least=1) << 20
CODE_MAX_ENTRIES = env_int("BERTH_CODE_MAX_FILES", 20_000, least=1)
CODE_USER_BYTES = env_int("BERTH_CODE_USER_GB", 10, least=1) << 30
CODE_KEPT_DAYS = env_int("BERTH_CODE_KEPT_DAYS", 7, least=1, most=HUNDRED_YEARS_D)
CODE_RATE = env_rate("BERTH_CODE_RATE", "600/hour")

# ---------------------------------------------------------------- notices
EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
EMAIL_ON, _mail = env_mail("BERTH_EMAIL_URL")
EMAIL_HOST, EMAIL_PORT = _mail.host, _mail.port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = _mail.user, _mail.password
EMAIL_USE_TLS, EMAIL_USE_SSL = _mail.starttls, _mail.tls
EMAIL_TIMEOUT = 10
EMAIL_FROM = env_str("BERTH_EMAIL_FROM", "")
MAILS_PER_MINUTE = env_int("BERTH_EMAIL_PER_MINUTE", 5, least=1)
WEBHOOK_ALLOW = env_networks("BERTH_WEBHOOK_ALLOW")
NOTICE_DAYS = env_int("BERTH_NOTICE_DAYS", 30, least=1, most=HUNDRED_YEARS_D)

# ---------------------------------------------------------------- people
AUTH_USER_MODEL = "accounts.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "login"
PASSWORD_RESET_TIMEOUT = 86_400
OIDC_ISSUER = env_issuer("BERTH_OIDC_ISSUER")
OIDC_CLIENT_ID = env_str("BERTH_OIDC_CLIENT_ID", "").strip()
OIDC_CLIENT_SECRET = env_secret("BERTH_OIDC_CLIENT_SECRET") or ""
OIDC_NAME = env_str("BERTH_OIDC_NAME", "")
OIDC_SCOPES = env_list("BERTH_OIDC_SCOPES", ["openid", "profile", "email"])
OIDC_USER_CLAIM = env_filled("BERTH_OIDC_USER_CLAIM", "preferred_username")
OIDC_GROUPS_CLAIM = env_filled("BERTH_OIDC_GROUPS_CLAIM", "groups")
OIDC_GRANTS = env_grants("BERTH_OIDC_ROLES")
OIDC_ACCOUNTS = env_word("BERTH_OIDC_ACCOUNTS", "mapped", ("none", "mapped", "all"))
OIDC_HOURS = env_int("BERTH_OIDC_HOURS", 12, least=1, most=HUNDRED_YEARS_D)
OIDC_CLOCK_SKEW_S = env_int("BERTH_OIDC_CLOCK_SKEW", 60)
PASSWORDS = env_bool("BERTH_PASSWORDS", True)
LOGIN_RATE = env_rate("BERTH_LOGIN_RATE", "10/min")
SUBMIT_RATE = env_rate("BERTH_SUBMIT_RATE", "3600/hour")
WAITING_TASKS = env_int("BERTH_WAITING_TASKS", 100_000, least=1)
ESTIMATE_RATE = env_rate("BERTH_ESTIMATE_RATE", "60/min")
LOG_SEARCH_RATE = env_rate("BERTH_LOG_SEARCH_RATE", "240/min")

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "中文")]
LOCALE_PATHS = [BASE_DIR / "portal" / "locale"]
TIME_ZONE = env_time_zone("BERTH_TIME_ZONE", "UTC")
USE_TZ = True

# ---------------------------------------------------------------- pages
STATIC_URL = "/static/"
STATIC_ROOT = env_path("BERTH_STATIC_DIR", DATA_DIR / "static")
DOCS_DIR = BASE_DIR / "docs"
STATICFILES_DIRS: list[Path | tuple[str, Path]] = [
    *(folder for folder in [BASE_DIR / "frontend" / "dist"] if folder.is_dir()),
    # The pictures of the user guide, which the portal shows.
    *((f"docs/{name}", DOCS_DIR / name) for name in ("pictures", "images") if (DOCS_DIR / name).is_dir()),
]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
WHITENOISE_MANIFEST_STRICT = False
WHITENOISE_IMMUTABLE_FILE_TEST = r"/assets/.+-[\w-]{8}\.\w+$"  # Vite's names carry a hash of the content

# ---------------------------------------------------------------- security
# Its own names are not to be set away: health checks ask by them.
ALLOWED_HOSTS = list(dict.fromkeys([_host, "127.0.0.1", "localhost", "[::1]", *env_hosts("BERTH_ALLOWED_HOSTS")]))
CSRF_TRUSTED_ORIGINS = list(dict.fromkeys([URL, *env_origins("BERTH_TRUSTED_ORIGINS")]))
TRUSTED_PROXIES = env_networks("BERTH_TRUSTED_PROXIES")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_FAILURE_VIEW = "portal.accounts.views.stale.csrf_failure"
CSRF_COOKIE_HTTPONLY = False  # the pages' scripts read it for their own requests
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 2_000_000
BODY_MAX_BYTES = 10_000_000

# ---------------------------------------------------------------- REST
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "portal.accounts.authentication.BearerToken",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["portal.accounts.authentication.SignedInWithScope"],
    "DEFAULT_PARSER_CLASSES": ["portal.common.parsers.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["portal.common.renderers.Json"],
    "DEFAULT_PAGINATION_CLASS": "portal.common.pagination.Cursor",
    "DEFAULT_SCHEMA_CLASS": "portal.common.openapi.Schema",
    "EXCEPTION_HANDLER": "portal.common.problems.handler",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Berth",
    "VERSION": VERSION,
    "DESCRIPTION": "Virtual clusters, jobs, logs and nodes of a Berth cluster.",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "COMPONENT_SPLIT_REQUEST": True,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "portal.common.openapi.defaults_outward",
        "portal.common.examples.examples_add",
    ],
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "ENUM_NAME_OVERRIDES": {
        "JobState": "portal.jobs.states.JobState",
        "TaskState": "portal.jobs.states.TaskState",
        "AttemptState": "portal.jobs.states.AttemptState",
        "ContainerState": [(str(state), str(state)) for state in ContainerState],
        "EndReason": "portal.jobs.states.EndReason",
        "NodeIntent": "portal.hardware.states.NodeIntent",
        "NodeHealth": "portal.hardware.states.NodeHealth",
        "VcRole": "portal.hardware.states.VcRole",
        "Borrow": "portal.hardware.states.Borrow",
        "PriorityClass": [(name, name) for name in PRIORITY_CLASSES],
        "Language": LANGUAGES,
        "ClusterRole": "portal.accounts.models.ClusterRole",
        "Scope": "portal.accounts.models.Scope",
        "MemberKind": [("user", "user"), ("group", "group")],
        "Profile": [("user", "user"), ("root", "root")],
        "StorageKind": [("path", "path"), ("nfs", "nfs")],
        "IdleAction": "portal.jobs.states.IdleAction",
        "JobNotice": "portal.notices.states.JobNotice",
        "WebhookEvent": "portal.notices.states.Told",
        "DeliveryKind": "portal.notices.states.DELIVERED",
        "SendingState": "portal.notices.states.SendingState",
    },
}

# ---------------------------------------------------------------- our own log
LOG_LEVEL = env_level("BERTH_LOG_LEVEL", "INFO")
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "portal.common.logging.line_formatter"}},
    "filters": {"outages": {"()": "portal.common.outage_lines.OutagesOnce"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["outages"]}},
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    "loggers": {
        "uvicorn.error": {"handlers": ["stderr"], "propagate": False},  # its log of accesses stays as it was told
        **{
            name: {"level": level}
            for name, level in {
                "django.db.backends": "INFO",
                "celery.beat": "WARNING",
                "celery.worker.strategy": "WARNING",
                "celery.app.trace": "WARNING",
                "httpx": "WARNING",
            }.items()
        },
    },
}
