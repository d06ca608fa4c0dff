"""Explains outages of what the portal depends on (database, Redis, disk), and a wrong host name: one sentence with the
cure."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator

import psycopg
import redis
from django.conf import settings
from django.core.exceptions import DisallowedHost
from kombu.exceptions import OperationalError as BrokerError

from nodes.protocol.connecting import Endpoint, connection_fault
from portal.common.database_faults import postgresql_fault, sqlite_fault
from portal.common.full_disks import NO_ROOM, disk_full


def outage(error: BaseException) -> str:
    """The sentence if this error, or one that it was raised from, is an outage; else empty: a bug of ours that occurs
    while handling an outage stays a bug. May probe the database server for a few seconds."""
    for cause in _raised_from(error):
        if isinstance(cause, OSError) and cause.errno in NO_ROOM:
            return disk_full(cause.filename)
        if isinstance(cause, sqlite3.Error):
            return sqlite_fault(cause, error)
        if isinstance(cause, psycopg.Error):
            return postgresql_fault(cause, error)
        if isinstance(cause, _REDIS):
            return _redis(cause)
        if isinstance(cause, DisallowedHost):
            return _other_name(cause)
    return ""


def _raised_from(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _other_name(cause: DisallowedHost) -> str:
    name = str(cause).partition("'")[2].partition("'")[0]
    return (
        f"A browser asks for {name!r}, and the portal is at {settings.URL}: correct BERTH_URL, or add the name to "
        "BERTH_ALLOWED_HOSTS and BERTH_TRUSTED_ORIGINS."
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
"""Redis errors that mean that it cannot be used."""


def _redis(cause: BaseException) -> str:
    refused = "know this account or its password: correct them in BERTH_REDIS_URL"
    allowed = "allow the portal's account ~* &* +@all"
    place = Endpoint("Redis", settings.REDIS_URL, "BERTH_REDIS_URL", "BERTH_REDIS_CA", refused, allowed)
    return connection_fault(cause, place, now_ms=int(time.time() * 1000))
