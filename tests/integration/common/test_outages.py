"""What an operator can do wrong to the portal's surroundings ends in one sentence with its cure: in the log, in a
command's output, on a page."""

from __future__ import annotations

import errno
import json
import logging.handlers
import os
import re
import socket
import sqlite3
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from django.conf import settings
from django.db import DatabaseError, OperationalError, connection
from django.db.migrations import Migration, RunSQL
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpRequest, HttpResponse
from django.test import Client, override_settings
from django.urls import path
from psycopg_pool import ConnectionPool

from portal.common import database_faults
from portal.common.outage_lines import AGAIN_S, OutagesOnce
from portal.common.outages import outage
from portal.common.problems import internal_error, not_found
from portal.urls import urlpatterns as real
from tests.support.services.disk import full_disk
from tests.support.services.postgres import PostgresServer
from tests.support.services.processes import free_port
from tests.support.services.redis_server import RedisServer
from tests.support.services.tls import Authority

ROOT = Path(__file__).parents[3]
HOUR = timedelta(hours=1)
CLOSED = "postgresql://berth@127.0.0.1:1/berth"
NOBODY = (
    "Nothing listens where PostgreSQL at 127.0.0.1:1 should: start it, open its port, or correct BERTH_DATABASE_URL."
)


class Broken(Migration):
    operations = [RunSQL("SELECT x FROM none_of_ours")]


handler404, handler500 = not_found, internal_error


def away(request: HttpRequest) -> HttpResponse:
    raise OperationalError from psycopg.OperationalError("connection failed: connection refused")


urlpatterns = [*real, path("api/v1/away", away), path("away", away)]
"""This module as the root of addresses: the portal's own, and two that find no database."""


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets the settings name another database: `database(url)`."""

    def named(url: str) -> None:
        told = psycopg.conninfo.conninfo_to_dict(url)
        for name, key in (("HOST", "host"), ("PORT", "port")):
            monkeypatch.setitem(connection.settings_dict, name, str(told.pop(key, "")))
        monkeypatch.setitem(connection.settings_dict, "OPTIONS", told)

    return named


def postgres_fault(url: str, **more: Any) -> str:
    """What is said where Django cannot connect there."""
    with pytest.raises(psycopg.OperationalError) as caught:
        psycopg.connect(url, connect_timeout=2, **more)
    try:
        raise OperationalError(str(caught.value)) from caught.value
    except OperationalError as wrapped:
        return outage(wrapped)


def redis_fault(url: str) -> str:
    with pytest.raises(redis.RedisError) as caught, redis.Redis.from_url(url, socket_timeout=1) as client:
        client.set("x", "y")
    return outage(caught.value)


# ---------------------------------------------------------------- the database


def test_a_database_whose_address_is_wrong_or_where_nobody_listens(database: Any) -> None:
    database("postgresql://nowhere.invalid:5432/berth")
    assert postgres_fault("postgresql://nowhere.invalid:5432/berth") == (
        "There is no server named nowhere.invalid: correct BERTH_DATABASE_URL, or this server's DNS."
    )
    database(CLOSED)
    assert postgres_fault(CLOSED) == NOBODY


@pytest.mark.postgres
def test_a_database_that_does_not_let_the_portal_in(postgres: PostgresServer, database: Any, tmp_path: Path) -> None:
    database(postgres.url())
    words = postgres_fault(postgres.url("no_such_database"))
    assert words == (
        f'PostgreSQL at 127.0.0.1:{postgres.port} does not let the portal in (FATAL: database "no_such_database" does '
        "not exist): correct BERTH_DATABASE_URL or BERTH_DATABASE_PASSWORD, or what PostgreSQL allows (pg_hba.conf, "
        "max_connections)."
    )
    without_tls = "(server does not support SSL, but SSL was required)"
    assert without_tls in postgres_fault(postgres.url(), sslmode="require")
    asks_for_tls = f"{postgres.url()}?sslmode=require"
    assert without_tls in manage("migrate", BERTH_DATA_DIR=str(tmp_path), BERTH_DATABASE_URL=asks_for_tls)


@pytest.mark.postgres
def test_a_certificate_of_the_database_that_is_not_taken_says_why(
    postgres: PostgresServer, database: Any, tmp_path: Path
) -> None:
    ours, foreign = Authority(tmp_path / "ours"), Authority(tmp_path / "foreign")
    url = f"{postgres.url('postgres')}?sslmode=verify-full&sslrootcert={ours.ca}"
    database(url)
    at, now = f"The certificate of PostgreSQL at 127.0.0.1:{postgres.port}", "[0-9-]{10} [0-9:]{5} UTC"
    shown = {
        f"{at} has expired: renew it there \\(or set this clock right: it says {now}\\)": ours.sign("old", ends=-HOUR),
        f"{at} is not valid yet: this server's clock says {now}; set it right": ours.sign("early", begins=HOUR),
        f"{at} is for another name: write the name that it has into BERTH_DATABASE_URL, or have one made for 127.0.0.1":
            ours.sign("other", host="db.example.org"),
        f"{at} is signed by an authority that is not known here .*: name its file in sslrootcert of BERTH_DATABASE_URL":
            foreign.sign("foreign"),
    }  # fmt: skip
    try:
        for words, files in shown.items():
            postgres.speak_tls(files)
            database_faults._certificate_asked.cache_clear()
            assert re.fullmatch(words + r"\.", told := postgres_fault(url)), told
        postgres.speak_tls(ours.sign("good"))
        psycopg.connect(url).close()
    finally:
        postgres.speak_tls(None)


@pytest.mark.postgres
def test_of_several_servers_one_that_answers_is_enough(postgres: PostgresServer, database: Any) -> None:
    database("postgresql://berth@127.0.0.1:1,nowhere.invalid:5432/berth")
    assert postgres_fault(CLOSED) == (
        f"{NOBODY} There is no server named nowhere.invalid: correct BERTH_DATABASE_URL, or this server's DNS."
    )
    url = f"postgresql://berth@127.0.0.1:1,127.0.0.1:{postgres.port}/no_such_database"
    database(url)
    assert 'does not let the portal in (FATAL: database "no_such_database" does not exist)' in postgres_fault(url)
    psycopg.connect(url.replace("no_such_database", "postgres")).close()


@pytest.mark.postgres
def test_a_pool_that_is_used_up_says_which_setting_to_raise(
    postgres: PostgresServer, database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "get_connection_params", lambda: {"conninfo": postgres.url("postgres")})
    database(postgres.url())
    with ConnectionPool(postgres.url("postgres"), min_size=1, max_size=1, timeout=0.1) as pool:
        pool.wait(30)
        with pool.connection(), pytest.raises(psycopg.OperationalError) as caught, pool.connection():
            pass
        assert outage(caught.value).startswith(
            f"All {settings.DATABASE_POOL} connections of this process to PostgreSQL"
        )


@pytest.mark.postgres
@pytest.mark.parametrize(
    "statements",
    [["EXECUTE kept_elsewhere"], ["PREPARE kept AS SELECT 1"] * 2, ["FETCH 1 FROM kept_elsewhere"]],
    ids=["lost", "another's", "cursor"],
)
def test_a_pooler_that_hands_connections_on_says_which_setting_to_switch_off(
    postgres: PostgresServer, database: Any, statements: list[str]
) -> None:
    """What PostgreSQL says where one statement of a process comes over another connection than the last."""
    database(postgres.url())
    with psycopg.connect(postgres.url("postgres"), autocommit=True) as base:
        *before, last = statements
        for one in before:
            base.execute(one.encode())
        with pytest.raises(psycopg.Error) as caught:
            base.execute(last.encode())
    assert outage(caught.value).endswith("between transactions: set BERTH_DATABASE_PREPARE=0 for every process.")


def test_a_mistake_in_a_query_is_no_outage() -> None:
    with sqlite3.connect(":memory:") as base, pytest.raises(sqlite3.OperationalError) as caught:
        base.execute("SELECT * FROM nothing")
    assert outage(caught.value) == ""
    assert outage(psycopg.errors.DeadlockDetected()) == ""
    assert outage(KeyError("x")) == ""
    handled: Exception = ValueError("our own")
    handled.__context__ = redis.ConnectionError("while that was handled")
    assert outage(handled) == ""


def test_a_database_file_that_cannot_be_opened_or_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError) as caught:
        sqlite3.connect(tmp_path / "none" / "berth.sqlite3")
    assert "cannot be opened to write: give this user its folder" in outage(caught.value)
    (tmp_path / "berth.sqlite3").write_bytes(b"no database at all" * 100)
    with sqlite3.connect(tmp_path / "berth.sqlite3") as base, pytest.raises(sqlite3.DatabaseError) as broken:
        base.execute("SELECT * FROM sqlite_master")
    assert "put a backup back with manage.py restore" in outage(broken.value)


def test_an_unreached_server_is_asked_once_and_not_for_each_entry_of_the_log(
    database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_faults, "ASKED_AGAIN_S", 1e9)
    port = free_port()
    url = f"postgresql://berth@127.0.0.1:{port}/berth"
    database(url)
    words = postgres_fault(url)
    assert words.startswith("Nothing listens where PostgreSQL")
    with socket.create_server(("127.0.0.1", port)) as server:
        server.settimeout(0.2)
        assert outage(psycopg.OperationalError("connection failed: refused")) == words
        with pytest.raises(TimeoutError):
            server.accept()


@pytest.mark.django_db(transaction=True)
def test_a_database_without_some_migrations_or_of_a_newer_release(tmp_path: Path) -> None:
    def fault() -> str:
        with pytest.raises(DatabaseError) as caught, connection.cursor() as cursor:
            cursor.execute("SELECT x FROM none_of_ours")
        database_faults._migrations_apart.cache_clear()
        return outage(caught.value)

    told = manage("usage_rebuild", "2026-11-01", BERTH_DATA_DIR=str(tmp_path))
    assert re.fullmatch(
        r"berth: The database is not that of this release: (\d+) of \1 migrations have not run, such as \w+\.\w+\. "
        r"Run manage\.py migrate\.\n",
        told,
    )
    assert fault() == "", "every migration has run: a mistake of ours"
    migrations = MigrationRecorder(connection)
    migrations.record_unapplied("jobs", "0001_initial")
    try:
        assert " 1 of " in (words := fault())
        assert "such as jobs.0001_initial" in words
        executor = MigrationExecutor(connection)
        with pytest.raises(DatabaseError) as caught:
            executor.apply_migration(executor.loader.project_state(), Broken("9999_broken", "jobs"))
        assert outage(caught.value) == "", "a mistake in a migration, which migrate would not cure"
    finally:
        migrations.record_applied("jobs", "0001_initial")
    migrations.record_applied("jobs", "9999_of_tomorrow")
    try:
        assert fault().startswith("The database is that of a newer release, which brought jobs.9999_of_tomorrow: start")
    finally:
        migrations.record_unapplied("jobs", "9999_of_tomorrow")


@pytest.mark.docker  # as root, who may mount
def test_a_full_disk_is_named_with_the_setting_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with full_disk(tmp_path / "data") as data:
        monkeypatch.setattr(settings, "DATA_DIR", data)
        with pytest.raises(OSError, match="No space") as caught:
            (data / "log").write_bytes(b"x" * 5000)
        assert outage(caught.value) == (
            f"The disk with {data} (BERTH_DATA_DIR) is full: make room there, or move it to a larger one."
        )
        monkeypatch.setitem(connection.settings_dict, "NAME", str(data / "berth.sqlite3"))
        with sqlite3.connect(data / "berth.sqlite3") as base, pytest.raises(sqlite3.OperationalError) as refused:
            base.execute("CREATE TABLE x (y)")
        assert outage(refused.value) == outage(caught.value)
        nameless = OSError(errno.ENOSPC, "No space left on device")  # as of what is written to an open file
        assert outage(nameless) == outage(caught.value)
        keys = manage("check", BERTH_DATA_DIR=str(data))
        assert keys.endswith("cannot keep the portal's keys there (No space left on device). Make room on its disk.\n")
        told = manage("migrate", BERTH_DATA_DIR=str(data), BERTH_KEYS_DIR=str(tmp_path / "keys"))
        assert told == f"berth: {outage(caught.value)}\n"
        monkeypatch.setattr(settings, "DATA_DIR", tmp_path)
        assert outage(nameless).startswith("The disk that this process writes to is full: make room there")


# ---------------------------------------------------------------- Redis


@pytest.mark.redis
def test_a_redis_that_is_away_refuses_or_has_no_memory(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "REDIS_URL", "redis://127.0.0.1:1/0")
    assert redis_fault(settings.REDIS_URL) == (
        "Nothing listens where Redis at 127.0.0.1:1 should: start it, open its port, or correct BERTH_REDIS_URL."
    )
    monkeypatch.setattr(settings, "REDIS_URL", redis_server.url)
    at = f"Redis at 127.0.0.1:{redis_server.port}"
    wrong = redis_server.url.replace("redis://", "redis://portal:wrong@")
    assert redis_fault(wrong) == (f"{at} does not know this account or its password: correct them in BERTH_REDIS_URL.")
    with redis_server.client() as client:
        client.config_set("maxmemory", 1)
    try:
        assert redis_fault(redis_server.url) == f"{at} has no memory left: raise its maxmemory."
    finally:
        with redis_server.client() as client:
            client.config_set("maxmemory", 0)


# ---------------------------------------------------------------- where it is said


def test_it_stands_in_the_log_once_and_again_after_a_while() -> None:
    now = [0.0]
    handler = logging.handlers.BufferingHandler(100)
    handler.addFilter(OutagesOnce(monotonic=lambda: now[0]))
    log = logging.Logger("portal.test")
    log.addHandler(handler)
    broken = redis.ConnectionError("Error 111 connecting to 127.0.0.1:1. Connection refused.")
    broken.__context__ = ConnectionRefusedError(111, "Connection refused")
    for at in (0.0, 1.0, 2.0, AGAIN_S, AGAIN_S + 1):
        now[0] = at
        log.warning("not woken: %s", broken)
        log.error("Task failed", exc_info=broken)
    log.error("Task failed", exc_info=KeyError("ours"))
    said = [(record.getMessage(), record.exc_info) for record in handler.buffer]
    assert [words.partition(" at ")[0] for words, _ in said] == ["Nothing listens where Redis"] * 2 + ["Task failed"]
    assert [bool(error) for _, error in said] == [False, False, True], "a mistake of ours keeps its traceback"


@pytest.mark.django_db
@override_settings(ROOT_URLCONF=__name__)
def test_pages_and_rest_say_that_a_part_is_away_and_not_that_we_made_a_mistake() -> None:
    client = Client(raise_request_exception=False)
    answer = client.get("/api/v1/away")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert json.loads(answer.content)["detail"].startswith("A part that the portal needs is away")
    page = client.get("/away")
    assert page.status_code == 503
    assert "A part of Berth is away for the moment" in page.content.decode()


@pytest.mark.django_db
def test_who_asks_by_another_name_is_told_the_portals_and_its_log_the_settings(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(settings, "URL", "https://berth.example.org")
    page = Client().get("/login", headers={"host": "berth.lan"})
    assert page.status_code == 400
    assert '<a href="https://berth.example.org">' in page.content.decode()
    answer = Client().get("/api/v1/jobs", headers={"host": "berth.lan"})
    assert json.loads(answer.content)["detail"].startswith("This portal is at https://berth.example.org")
    (record, *_) = (record for record in caplog.records if record.name == "django.security.DisallowedHost")
    assert OutagesOnce().filter(record)
    assert (record.getMessage(), record.exc_info) == (
        "A browser asks for 'berth.lan', and the portal is at https://berth.example.org: correct BERTH_URL, or add the "
        "name to BERTH_ALLOWED_HOSTS and BERTH_TRUSTED_ORIGINS.",
        None,
    )


def manage(*words: str, **env: str) -> str:
    """What a command says that ends with status 1."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("BERTH_")}
    done = subprocess.run(
        [sys.executable, "manage.py", *words], cwd=ROOT, env=plain | env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_command_ends_with_the_sentence(tmp_path: Path) -> None:
    assert manage("migrate", BERTH_DATA_DIR=str(tmp_path), BERTH_DATABASE_URL=CLOSED) == f"berth: {NOBODY}\n"
