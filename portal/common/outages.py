"""What outside the portal fails (the database, Redis, a disk), or its own name: in one sentence, with the cure."""

from __future__ import annotations

import errno
import shutil
import socket
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import redis
from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.db import connection
from kombu.exceptions import OperationalError as BrokerError
from psycopg_pool import PoolTimeout

from nodes.protocol import Place, connection_fault

PROBE_S = 2
LITTLE = 1 << 20
"""Bytes; a disk with less is the one that is full, where the error does not say which."""
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
# PostgreSQL's codes (appendix A) of what is no fault of a query: connection, log-in, no such database, resources, stop.
_NO_WAY_IN = ("08", "28", "3D", "53", "57P")
_DISK_FULL = "53100"
_STARTS_OR_STOPS = ("system is ", "terminating connection", "closed the connection")


def outage(error: BaseException) -> str:
    """The sentence where this error, or one that it was raised from, is the outside's; empty for any other: a mistake
    of ours while such an error is handled stays a mistake. It may ask the database's server, which takes up to some
    seconds."""
    for cause in _raised_from(error):
        if isinstance(cause, OSError) and cause.errno in NO_ROOM:
            return _disk_full(cause.filename)
        if isinstance(cause, sqlite3.Error):
            return _sqlite(cause)
        if isinstance(cause, psycopg.Error):
            return _postgresql(cause)
        if isinstance(cause, _REDIS):
            return _redis(cause)
        if isinstance(cause, DisallowedHost):
            return _other_name(cause)
    return ""


def _raised_from(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _disk_full(path: object = None) -> str:
    folders = [(Path(settings.DATA_DIR), "BERTH_DATA_DIR"), (Path(tempfile.gettempdir()), "TMPDIR")]
    below = [one for one in folders if str(path or "").startswith(str(one[0]))]
    full = [one for one in folders if _free(one[0]) < LITTLE]
    where = [f"with {folder} ({setting})" for folder, setting in below or ([] if path else full)]
    named = where[0] if where else f"with {path}" if path else "that this process writes to"
    return f"The disk {named} is full: make room there, or move it to a larger one."


def _free(folder: Path) -> int:
    """Bytes; where it is not there the question does not arise."""
    return shutil.disk_usage(folder).free if folder.is_dir() else LITTLE


def _other_name(cause: DisallowedHost) -> str:
    name = str(cause).partition("'")[2].partition("'")[0]
    return (
        f"A browser asks for {name!r}, and the portal is at {settings.URL}: correct BERTH_URL, or add the name to "
        "BERTH_ALLOWED_HOSTS and BERTH_TRUSTED_ORIGINS."
    )


# ---------------------------------------------------------------- the database


def _sqlite(cause: sqlite3.Error) -> str:
    name, file = getattr(cause, "sqlite_errorname", ""), Path(connection.settings_dict["NAME"])
    if name == "SQLITE_FULL":
        return _disk_full(file)
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY")):
        return (
            f"The database {file} cannot be opened to write: give this user its folder and its files, or name another "
            "place in BERTH_DATABASE_URL or BERTH_DATA_DIR."
        )
    if name.startswith("SQLITE_IOERR"):
        return f"The disk with the database {file} fails ({cause}): make room there, and look at the kernel's log."
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return f"The database {file} is damaged ({cause}): put a backup back with manage.py restore FILE --replace."
    return ""


def _postgresql(cause: psycopg.Error) -> str:
    if cause.sqlstate == _DISK_FULL:
        return f"The disk of {_database().at} is full: make room there."
    if isinstance(cause, PoolTimeout):
        return _pool_empty()
    broken = cause.sqlstate is None and isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError)
    if broken or (cause.sqlstate or "").startswith(_NO_WAY_IN):
        return _unreached() or _not_let_in(cause)
    return ""


def _database() -> Place:
    told = connection.settings_dict
    host = f"[{told['HOST']}]" if ":" in told["HOST"] else told["HOST"]
    return Place("PostgreSQL", f"postgresql://{host}:{told['PORT'] or 5432}", "BERTH_DATABASE_URL", "PGSSLROOTCERT")


def _unreached() -> str:
    """Why its server cannot be reached; empty where it can. Asked anew, since libpq tells it in words alone."""
    place = _database()
    host = connection.settings_dict["HOST"]
    if not host or host.startswith("/"):
        return ""
    try:
        socket.create_connection((host, urlsplit(place.url).port), timeout=PROBE_S).close()
    except OSError as error:
        return connection_fault(error, place, now_ms=int(time.time() * 1000))
    return ""


def _pool_empty() -> str:
    """No connection came within the pool's patience: none can be made, or all are in use."""
    try:
        psycopg.connect(**{**connection.get_connection_params(), "connect_timeout": PROBE_S}).close()
    except psycopg.Error as error:
        return _unreached() or _not_let_in(error)
    return (
        f"All {settings.DATABASE_POOL} connections of this process to {_database().at} were in use for too long: raise "
        "BERTH_DATABASE_POOL (and PostgreSQL's max_connections), or start more processes."
    )


def _not_let_in(cause: psycopg.Error) -> str:
    said = " ".join(str(cause).rpartition(" failed: ")[2].split())
    at = _database().at
    if any(words in said for words in _STARTS_OR_STOPS):
        return f"{at} stops, starts or was restarted ({said}): the portal goes on by itself once it is up."
    return (
        f"{at} does not let the portal in ({said}): correct BERTH_DATABASE_URL or BERTH_DATABASE_PASSWORD, or what "
        "PostgreSQL allows (pg_hba.conf, max_connections)."
    )


# ---------------------------------------------------------------- Redis

_REDIS = (
    redis.ConnectionError,
    redis.TimeoutError,
    redis.ReadOnlyError,
    redis.OutOfMemoryError,
    redis.exceptions.NoPermissionError,
    BrokerError,
)
"""Of its errors those that say that it cannot be used."""


def _redis(cause: BaseException) -> str:
    refused = "know this account or its password: correct them in BERTH_REDIS_URL"
    allowed = "allow the portal's account ~* &* +@all"
    place = Place("Redis", settings.REDIS_URL, "BERTH_REDIS_URL", "BERTH_REDIS_CA", refused, allowed)
    return connection_fault(cause, place, now_ms=int(time.time() * 1000))
