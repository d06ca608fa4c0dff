"""Puts a backup back, whole or not at all: into a new database, or in the place of the one that is there."""

from __future__ import annotations

import gzip
import os
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import msgspec
from django.apps import apps
from django.conf import settings
from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.core.management import call_command
from django.core.management.color import no_style
from django.db import DatabaseError, connection, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from nodes.protocol.decoding import decoded
from portal.accounts.models import User
from portal.data_folder.backups import restore_note
from portal.data_folder.services import FolderInUse, data_folder_alone, data_folder_take
from portal.env.values import env_secret
from portal.jobs.models import Job
from portal.node_orders.services.restored import logs_told_anew
from portal.scheduler.lease import lease_held
from portal.scheduler.models import CycleLease
from portal.upkeep.archive import PIECE, ArchiveReader
from portal.upkeep.backup import part_folder
from portal.upkeep.contents import FORMAT, MANIFEST, Manifest, table_entry
from portal.upkeep.tables import rows_delete, rows_load

NUMBERS_LEFT_OUT: dict[type[Job | User], int] = {Job: 10_000, User: 100}
"""Numbers that nobody gets: the jobs that were submitted since the backup had the next ones, and may still run; to the
accounts that were made since belong folders, by the uids that go with their numbers."""

RUNNING = "This portal is running. Stop all of its processes first; jobs run on meanwhile."

SCHEMA = "berth_restoring"
"""Where PostgreSQL has the tables until they take their place."""


class RestoreRefused(Exception):
    """Why nothing was restored; what to do about it."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What is there again. ``made_at``: the moment that the backup holds; ``parts``: files beside the database."""

    made_at: datetime
    rows: int
    parts: dict[str, int]


def restore(*, path: Path, replace: bool, said: Callable[[str], None] = lambda _: None) -> Restored:
    """Reads the file once to know that it is whole, then puts everything back. Killed before its end the database is
    what it was; it may be repeated. Raises RestoreRefused, ArchiveInvalid, OSError."""
    archive = ArchiveReader(path)
    _connection_alone()
    with _folder_alone():
        said(f"Checking {path}")
        archive.check()
        manifest = _manifest(archive)
        _refuse_what_does_not_fit(archive, manifest)
        _refuse_what_is_there(replace=replace)
        later: list[tuple[Path, Path]] = []
        try:
            newest = {model: _newest(model) for model in NUMBERS_LEFT_OUT}
            with _new_database():
                said("Making the tables")
                loader = _tables_make(manifest)
                said("Loading rows")
                try:
                    rows = _rows(archive, loader)
                except (DatabaseError, msgspec.MsgspecError, FieldDoesNotExist, ValidationError, zlib.error) as error:
                    raise RestoreRefused(f"The rows in {path} cannot be put into a database: {error}") from error
                said("Bringing the tables up to this version")
                call_command("migrate", verbosity=0, interactive=False)
                _settle(manifest, newest)
                parts = _files(archive, said, later)
            # Last: with the keys of another database that of before would be of no use, with its curves it would show
            # less than there was.
            for fresh, final in later:
                fresh.replace(final)
        finally:
            for fresh, _ in later:
                fresh.unlink(missing_ok=True)
    return Restored(manifest.made_at, rows, parts)


# ---------------------------------------------------------------- what does not go


def _manifest(archive: ArchiveReader) -> Manifest:
    for name, file in archive.entries():
        if name != MANIFEST:
            break
        try:
            manifest = decoded(file.read(), Manifest)
        except msgspec.MsgspecError as error:
            raise RestoreRefused(f"{archive.path} is no backup of Berth: {error}.") from error
        if manifest.format != FORMAT:
            raise RestoreRefused(f"{archive.path} is of form {manifest.format}; this Berth reads {FORMAT}.")
        return manifest
    raise RestoreRefused(f"{archive.path} is no backup of Berth.")


def _refuse_what_does_not_fit(archive: ArchiveReader, manifest: Manifest) -> None:
    if manifest.cluster != settings.CLUSTER_NAME:
        raise RestoreRefused(
            f"The backup is of the cluster {manifest.cluster}, this portal's is {settings.CLUSTER_NAME}: its servers "
            f"would not be known. Set BERTH_CLUSTER={manifest.cluster}."
        )
    known = MigrationExecutor(connection).loader.graph.nodes
    unknown = [f"{app}.{name}" for app, name in manifest.migrations if (app, name) not in known]
    if unknown:
        raise RestoreRefused(
            f"The backup was made by a newer version of Berth ({unknown[0]} is not known here): install that first."
        )
    if "keys" in manifest.parts:
        _refuse_other_keys(archive)


def _refuse_other_keys(archive: ArchiveReader) -> None:
    """Keys that the environment gives win over files: with others than the backup's its secrets are unreadable."""
    given = {"django.key": "BERTH_SECRET_KEY", "portal.key": "BERTH_PORTAL_KEY", "sealing.key": "BERTH_SEALING_KEY"}
    for name, file in archive.entries():
        if not name.startswith("keys/"):
            continue
        variable = given.get(name.removeprefix("keys/"))
        value = env_secret(variable) if variable else None
        if value and value.strip() != file.read().decode().strip():
            raise RestoreRefused(
                f"{variable} is set to another key than the backup's. Unset it, so that the backup's is used, or make "
                "it the same."
            )


def _refuse_what_is_there(*, replace: bool) -> None:
    tables_there = set(connection.introspection.table_names())
    if CycleLease._meta.db_table in tables_there:
        held = lease_held(now=timezone.now(), seconds=settings.LEASE_SECONDS)
        lease = CycleLease.objects.filter(held).first()
        if lease is not None and lease.holder:
            raise RestoreRefused(RUNNING)
    others = _others_connected()
    if others:
        raise RestoreRefused(
            f"{others} others are connected to this database. Stop all of the portal's processes first; jobs run on."
        )
    people = User.objects.count() if User._meta.db_table in tables_there else 0
    jobs = Job.objects.count() if Job._meta.db_table in tables_there else 0
    if (people or jobs) and not replace:
        raise RestoreRefused(
            f"The database is not empty: it has {people} users and {jobs} jobs. Name a new one by "
            "BERTH_DATABASE_URL, or say --replace to have all of that deleted."
        )


@contextmanager
def _folder_alone() -> Iterator[None]:
    """No process of the portal has the data folder, and none starts in the block. PostgreSQL itself tells who is
    connected, from every machine; of a file server that one of them left without a word the lock could stay."""
    if connection.vendor == "postgresql":
        yield
        return
    try:
        with data_folder_alone():
            yield
    except FolderInUse:
        raise RestoreRefused(RUNNING) from None


def _connection_alone() -> None:
    """One connection without a pool, beside which any other is somebody else's."""
    if connection.vendor == "postgresql":
        connection.close()
        cast(Any, connection).close_pool()
        connection.settings_dict["OPTIONS"].pop("pool", None)


def _others_connected() -> int:
    if connection.vendor != "postgresql":
        return 0
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'"
        )
        return int(cursor.fetchone()[0])


# ---------------------------------------------------------------- the database


@contextmanager
def _new_database() -> Iterator[None]:
    """A database without tables, which takes the place of what is there when the block has ended well: on PostgreSQL a
    schema whose tables are moved in one transaction, on SQLite another file. Migrations that make indexes beside what
    goes on need to be in no transaction."""
    with _new_schema() if connection.vendor == "postgresql" else _new_file():
        yield


@contextmanager
def _new_schema() -> Iterator[None]:
    """It stands before the one that is there, where extensions are: of what has one name in both, the new is meant."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_schema()")
        place = cursor.fetchone()[0]
        home = connection.ops.quote_name(place)
        cursor.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
        cursor.execute(f"CREATE SCHEMA {SCHEMA}")
        cursor.execute(f"SET search_path TO {SCHEMA}")
        MigrationRecorder(connection).ensure_schema()
        cursor.execute(f"SET search_path TO {SCHEMA}, {home}")
    try:
        yield
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [SCHEMA])
            fresh = {name for (name,) in cursor.fetchall()}
            cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [place])
            # Also those that only a newer release has, which would meet them again when it is installed anew.
            ours = {name for (name,) in cursor.fetchall() if name.startswith(_OURS)}
            for name in sorted(fresh | ours):
                cursor.execute(f"DROP TABLE IF EXISTS {home}.{connection.ops.quote_name(name)} CASCADE")
            _extensions_move(home)
            for name in sorted(fresh):
                cursor.execute(f"ALTER TABLE {SCHEMA}.{connection.ops.quote_name(name)} SET SCHEMA {home}")
    finally:
        with connection.cursor() as cursor:
            cursor.execute("RESET search_path")
            cursor.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")


_OURS = ("django_", *(f"{config.label}_" for config in apps.get_app_configs()))
"""What names of tables begin with."""


def _extensions_move(home: str) -> None:
    """What the migrations of an empty database brought lies where its tables do."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT extname FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE nspname = %s",
            [SCHEMA],
        )
        for (name,) in cursor.fetchall():
            cursor.execute(f"ALTER EXTENSION {connection.ops.quote_name(name)} SET SCHEMA {home}")


@contextmanager
def _new_file() -> Iterator[None]:
    final = Path(connection.settings_dict["NAME"])
    fresh = final.with_name(f"{final.name}.restoring")
    _sqlite_forget(fresh)
    connection.close()
    connection.settings_dict["NAME"] = str(fresh)
    try:
        yield
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        for ending in ("-wal", "-shm"):
            final.with_name(final.name + ending).unlink(missing_ok=True)
        fresh.replace(final)
    finally:
        connection.close()
        connection.settings_dict["NAME"] = str(final)
        _sqlite_forget(fresh)


def _sqlite_forget(path: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


def _tables_make(manifest: Manifest) -> MigrationExecutor:
    """The tables as they were when the backup was made, without rows."""
    executor = MigrationExecutor(connection)
    wanted = {(app, name) for app, name in manifest.migrations}
    graph = executor.loader.graph
    last = [key for key in wanted if not any(child.key in wanted for child in graph.node_map[key].children)]
    executor.migrate(sorted(last))
    executor.loader.build_graph()
    return executor


def _rows(archive: ArchiveReader, executor: MigrationExecutor) -> int:
    """Loads every table's rows. References are checked at the end, so that their order does not matter."""
    then = executor.loader.project_state(list(executor.loader.applied_migrations)).apps
    entries = {table_entry(model._meta.label_lower): model for model in then.get_models(include_auto_created=True)}
    with _references_unchecked():
        rows_delete([one for one in entries.values() if one._meta.managed and not one._meta.proxy])
        count = 0
        for name, file in archive.entries():
            if name.startswith("database/"):
                if name not in entries:
                    raise RestoreRefused(f"{archive.path} holds {name}, for which its own version had no table.")
                with gzip.GzipFile(fileobj=file) as lines:
                    count += rows_load(entries[name], lines)
    _sequences_set([*entries.values()])
    return count


@contextmanager
def _references_unchecked() -> Iterator[None]:
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET CONSTRAINTS ALL DEFERRED")
        yield
        connection.check_constraints()


def _sequences_set(models: list[type]) -> None:
    with connection.cursor() as cursor:
        for sql in connection.ops.sequence_reset_sql(no_style(), models):
            cursor.execute(sql)


def _newest(model: type[Job | User]) -> int:
    """The largest number of a job or an account in the database that is there; 0 where there is none."""
    if model._meta.db_table not in connection.introspection.table_names():
        return 0
    return model._base_manager.order_by("-pk").values_list("pk", flat=True).first() or 0


def _settle(manifest: Manifest, newest_there: Mapping[type[Job | User], int]) -> None:
    """What is different when a past moment becomes the present. ``newest_there``: the last ones of the database whose
    place it takes."""
    CycleLease.objects.all().delete()
    logs_told_anew()
    data_folder_take()
    restore_note(made_at=manifest.made_at, now=timezone.now())
    for model, newest in newest_there.items():
        _number_next(model, max(_newest(model), newest) + NUMBERS_LEFT_OUT[model])


def _number_next(model: type[Job | User], number: int) -> None:
    """The next one has a number beyond this one."""
    table = model._meta.db_table
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT setval(pg_get_serial_sequence(%s, 'id'), %s)", [table, number])
        else:
            cursor.execute("DELETE FROM sqlite_sequence WHERE name = %s", [table])
            cursor.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (%s, %s)", [table, number])


# ---------------------------------------------------------------- the files


AT_ONCE = {"code", "logs"}
"""Parts whose files never change: what lies there under a name of the backup's is the same."""


def _files(archive: ArchiveReader, said: Callable[[str], None], later: list[tuple[Path, Path]]) -> dict[str, int]:
    """Puts files where they belong; what lies there under other names stays. What may differ from what is there it
    writes beside its place: these are the caller's to rename, and stand in `later` before they are made."""
    counts: dict[str, int] = {}
    for name, file in archive.entries():
        part, _, rest = name.partition("/")
        if not rest or part == "database":
            continue
        if part not in counts:
            said(f"Putting back: {part}")
        counts[part] = counts.get(part, 0) + 1
        final = part_folder(part) / rest
        final.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = final.with_name(f".{final.name}.restoring")
        if part not in AT_ONCE:
            later.append((fresh, final))
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as target:
            shutil.copyfileobj(file, target, PIECE)
        if part in AT_ONCE:
            fresh.replace(final)
    os.sync()
    return counts
