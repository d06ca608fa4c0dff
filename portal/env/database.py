"""The database's address, from the environment: libpq itself reads that of a PostgreSQL, with all that it takes."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from psycopg import ProgrammingError, pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from portal.env.values import BadSetting, env_secret

# A server whose machine vanished, as at a failover, would be waited for a quarter of an hour or two.
_PATIENCE: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
_NUMBERS = (
    *("connect_timeout", "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"),
    "tcp_user_timeout",
)
"""Parameters that libpq reads when it connects, too late to be told at the start."""
_NOWHERE = "/nonexistent"
_WRITTEN = "must be postgresql://user:password@host:5432/name, odd characters of user and password as %40"


def env_database(name: str, password: str, default: str) -> dict[str, Any]:
    """What Django's ``DATABASES`` has of it. ``password`` names the variable that has it where the address has none.
    Both are secret, and no message shows them."""
    url = env_secret(name) or default
    scheme = url.partition(":")[0]
    if scheme == "sqlite":
        return _sqlite(name, url)
    if scheme in {"postgres", "postgresql"}:
        return _postgresql(name, url, env_secret(password) or "")
    raise BadSetting(f"{name}: begins with neither sqlite:/// nor postgresql://.")


def _sqlite(name: str, url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    if parts.netloc or parts.query or parts.fragment or parts.path.endswith("/"):
        raise BadSetting(f"{name}={url!r}: must be sqlite:////path/of/the/file, with four slashes.")
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": unquote(parts.path[1:]) or ":memory:",
        # IMMEDIATE: two writers wait for each other instead of failing on the upgrade of a read lock.
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }


def _postgresql(name: str, url: str, password: str) -> dict[str, Any]:
    told = _told(name, url)
    _refuse_what_libpq_refuses(name, told)
    if not told.get("dbname") and not told.get("service"):
        raise BadSetting(f"{name}: names no database: {_WRITTEN}.")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": told.pop("dbname", ""),
        "USER": told.pop("user", ""),
        "PASSWORD": told.pop("password", "") or password,
        "HOST": told.pop("host", ""),
        "PORT": told.pop("port", ""),
        "OPTIONS": _PATIENCE | told,
        "CONN_HEALTH_CHECKS": True,
    }


def _told(name: str, url: str) -> dict[str, str]:
    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()} | {"ssl"}
    for parameter, _ in parse_qsl(url.partition("?")[2], keep_blank_values=True):
        if parameter not in known:
            raise BadSetting(f"{name}: PostgreSQL knows no parameter {parameter!r}; such as sslmode it does.")
    try:
        # Its words are not told: they quote what they do not understand, such as a password.
        return {key: str(value) for key, value in conninfo_to_dict(url).items()}
    except ProgrammingError:
        raise BadSetting(f"{name}: {_WRITTEN}.") from None


def _refuse_what_libpq_refuses(name: str, told: dict[str, str]) -> None:
    for number in _NUMBERS:
        if number in told and not told[number].isdecimal():
            raise BadSetting(f"{name}: {number}={told[number]} must be a whole number.")
    # libpq looks through all of it before it connects: here to sockets that nobody has.
    hosts = ",".join(_NOWHERE for _ in told.get("host", "").split(","))
    tried = {key: value for key, value in told.items() if key not in {"host", "hostaddr", "password", "service"}}
    begun = pq.PGconn.connect_start(make_conninfo(**{**tried, "host": hosts, "dbname": "none"}).encode())
    said = begun.get_error_message().strip()
    begun.finish()
    if _NOWHERE not in said:
        raise BadSetting(f"{name}: {said}.")
    authority = told.get("sslrootcert", "")
    if authority not in {"", "system"} and not os.access(authority, os.R_OK):
        raise BadSetting(f"{name}: sslrootcert={authority} cannot be read: name the file of the server's authority.")
