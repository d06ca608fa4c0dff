"""Explains a database error: why it cannot be used, or is of another release; one sentence with the cure."""

from __future__ import annotations

import os
import socket
import sqlite3
import ssl
import struct
import time
import traceback
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote, urlsplit

import psycopg
from django.conf import settings
from django.db import connection
from django.db.migrations import executor
from django.db.migrations.loader import MigrationLoader
from psycopg_pool import PoolTimeout

from nodes.protocol.connecting import Endpoint, connection_fault
from portal.common.full_disks import disk_full

PROBE_S = 2
ASKED_AGAIN_S = 10
"""How long a probe's result is reused: an outage is logged with every entry, and probing each time would be too
much."""
# SQLSTATE prefixes (appendix A) that no query causes: connection, log-in, no such database, resources, shutdown.
_NO_WAY_IN = ("08", "28", "3D", "53", "57P")
_DISK_FULL = "53100"
_WANTS_TLS = struct.pack("!ii", 8, 80877103)
"""PostgreSQL's SSLRequest message; the server answers S before TLS begins."""
_AUTHORITIES = Path("~/.postgresql/root.crt")
"""Where libpq looks for root certificates by default."""
_POOLED = (
    psycopg.errors.InvalidSqlStatementName,
    psycopg.errors.DuplicatePreparedStatement,
    psycopg.errors.InvalidCursorName,
)
"""A prepared statement or cursor is missing on the connection, or belongs to somebody else."""
_STARTS_OR_STOPS = ("system is ", "terminating connection", "closed the connection")
_NOT_THERE = ("no such table", "no such column", "has no column named")
"""SQLite's messages for what PostgreSQL has error classes for."""
_APPLIED = "SELECT app, name FROM django_migrations"
_ANY_SQLITE = "SELECT 1 FROM sqlite_master WHERE name = 'django_migrations'"
_ANY_POSTGRESQL = "SELECT to_regclass('django_migrations')"


def sqlite_fault(cause: sqlite3.Error, raised: BaseException) -> str:
    """Explains an SQLite error; ``raised`` is the exception that it led to. Empty for a bug of ours."""
    name, file = getattr(cause, "sqlite_errorname", ""), Path(connection.settings_dict["NAME"])
    if name == "SQLITE_FULL":
        return disk_full(file)
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY")):
        return (
            f"The database {file} cannot be opened to write: give this user its folder and its files, or name another "
            "place in BERTH_DATABASE_URL or BERTH_DATA_DIR."
        )
    if name.startswith("SQLITE_IOERR"):
        return f"The disk with the database {file} fails ({cause}): make room there, and look at the kernel's log."
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return f"The database {file} is damaged ({cause}): put a backup back with manage.py restore FILE --replace."
    if any(words in str(cause) for words in _NOT_THERE):
        return _of_another_release(raised)
    return ""


def postgresql_fault(cause: psycopg.Error, raised: BaseException) -> str:
    """Explains a PostgreSQL error; ``raised`` is the exception that it led to. Empty for a bug of ours. May probe the
    server for a few seconds."""
    if cause.sqlstate == _DISK_FULL:
        return f"The disk of {_place().at} is full: make room there."
    if isinstance(cause, PoolTimeout):
        return _pool_empty(_now())
    if isinstance(cause, _POOLED):
        return (
            f"{_place().at} is a pooler that hands connections on between transactions: set BERTH_DATABASE_PREPARE=0 "
            "for every process."
        )
    if isinstance(cause, psycopg.errors.UndefinedTable | psycopg.errors.UndefinedColumn):
        return _of_another_release(raised)
    broken = cause.sqlstate is None and isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError)
    if broken or (cause.sqlstate or "").startswith(_NO_WAY_IN):
        return _unreached() or _not_let_in(cause)
    return ""


def _now() -> int:
    """A cache key that changes every ``ASKED_AGAIN_S``."""
    return int(time.monotonic() / ASKED_AGAIN_S)


def _places() -> list[Endpoint]:
    """The endpoint of each server in the URL."""
    hosts = connection.settings_dict["HOST"].split(",")
    ports = str(connection.settings_dict["PORT"]).split(",")
    ports = ports if len(ports) == len(hosts) else ports * len(hosts)
    setting, authority = "BERTH_DATABASE_URL", "sslrootcert of BERTH_DATABASE_URL"
    return [
        Endpoint(
            "PostgreSQL", f"postgresql://{f'[{host}]' if ':' in host else host}:{port or 5432}", setting, authority
        )
        for host, port in zip(hosts, ports, strict=True)
    ]


def _place() -> Endpoint:
    """The first server, for messages that concern them all."""
    return _places()[0]


def _unreached() -> str:
    """Why none of the servers can be reached; empty if one can. Probed again, since libpq gives only prose."""
    host = connection.settings_dict["HOST"]
    if not host or host.startswith("/"):
        return ""
    told = [_asked(place, _now()) for place in _places()]
    return "" if "" in told else " ".join(told)


@lru_cache(maxsize=8)
def _asked(place: Endpoint, _at: int) -> str:
    try:
        _dialled(place).close()
    except (OSError, UnicodeError) as error:
        return connection_fault(error, place, now_ms=int(time.time() * 1000))
    return ""


def _dialled(place: Endpoint) -> socket.socket:
    return socket.create_connection((place.host, urlsplit(place.url).port), timeout=PROBE_S)


# ---------------------------------------------------------------- certificate


def _not_trusted() -> str:
    """What is wrong with the first certificate that is not accepted; empty if none is found."""
    told = connection.settings_dict["OPTIONS"]
    authority = str(told.get("sslrootcert") or os.environ.get("PGSSLROOTCERT") or _AUTHORITIES.expanduser())
    named = told.get("sslmode", os.environ.get("PGSSLMODE")) == "verify-full"
    return next(filter(None, (_certificate_asked(place, authority, named, _now()) for place in _places())), "")


@lru_cache(maxsize=8)
def _certificate_asked(place: Endpoint, authority: str, named: bool, _at: int) -> str:
    """Asks OpenSSL why a certificate is not accepted: libpq only says that it is not verified. ``named``: check the
    host name, too."""
    try:
        context = ssl.create_default_context(cafile=None if authority == "system" else authority)
        context.check_hostname = named
        with _dialled(place) as plain:
            plain.sendall(_WANTS_TLS)
            if plain.recv(1) != b"S":
                return ""
            context.wrap_socket(plain, server_hostname=place.host).close()
    except ssl.SSLError as error:
        return connection_fault(error, place, now_ms=int(time.time() * 1000))
    except OSError:
        return ""
    return ""


@lru_cache(maxsize=1)
def _pool_empty(_at: int) -> str:
    """Why the pool gave no connection in time: none can be made, or all are in use."""
    try:
        psycopg.connect(**{**connection.get_connection_params(), "connect_timeout": PROBE_S}).close()
    except psycopg.Error as error:
        return _unreached() or _not_let_in(error)
    return (
        f"All {settings.DATABASE_POOL} connections of this process to {_place().at} were in use for too long: raise "
        "BERTH_DATABASE_POOL (and PostgreSQL's max_connections), or start more processes."
    )


def _not_let_in(cause: psycopg.Error) -> str:
    said = " ".join(str(cause).rpartition(" failed: ")[2].split())
    at = _place().at
    if ("certificate" in said or "SSL error" in said) and (words := _not_trusted()):
        return words
    if any(words in said for words in _STARTS_OR_STOPS):
        return f"{at} stops, starts or was restarted ({said}): the portal goes on by itself once it is up."
    return (
        f"{at} does not let the portal in ({said}): correct BERTH_DATABASE_URL or BERTH_DATABASE_PASSWORD, or what "
        "PostgreSQL allows (pg_hba.conf, max_connections)."
    )


# ---------------------------------------------------------------- tables


def _of_another_release(raised: BaseException) -> str:
    """Explains a missing table or column: a migration that has not run, else a bug of ours; inside a migration always a
    bug of ours."""
    modules = (frame.f_globals.get("__name__") for frame, _ in traceback.walk_tb(raised.__traceback__))
    return "" if executor.__name__ in modules else _migrations_apart(str(connection.settings_dict["NAME"]), _now())


@lru_cache(maxsize=4)
def _migrations_apart(_database: str, _at: int) -> str:
    try:
        applied = _applied()
    except (psycopg.Error, sqlite3.Error):
        return ""
    ours = set(MigrationLoader(None).disk_migrations)
    if missing := sorted(ours - applied):
        return (
            f"The database is not that of this release: {len(missing)} of {len(ours)} migrations have not run, such "
            f"as {'.'.join(missing[-1])}. Run manage.py migrate."
        )
    if foreign := sorted(applied - ours):
        return (
            f"The database is that of a newer release, which brought {'.'.join(foreign[-1])}: start that release, or "
            "put back a backup of this one with manage.py restore FILE --replace."
        )
    return ""


def _applied() -> set[tuple[str, str]]:
    """The applied migrations, read on a separate connection: the failed one may be in an aborted transaction."""
    if connection.vendor == "sqlite":
        with closing(sqlite3.connect(f"file:{quote(str(connection.settings_dict['NAME']))}?mode=ro", uri=True)) as own:
            return set(own.execute(_APPLIED)) if own.execute(_ANY_SQLITE).fetchone() else set()
    parameters = {**connection.get_connection_params(), "connect_timeout": PROBE_S}
    with psycopg.connect(**parameters) as own:
        (there,) = own.execute(_ANY_POSTGRESQL).fetchone() or (None,)
        return {(str(app), str(name)) for app, name in own.execute(_APPLIED)} if there else set()
