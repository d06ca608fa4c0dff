"""Makes a backup: the database as it is at one moment, then the files that belong to it."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from django.conf import settings
from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder

from portal.data_folder.backups import backup_note
from portal.data_folder.services import data_folder_fault
from portal.upkeep.archive import ArchiveWriter
from portal.upkeep.contents import FORMAT, MANIFEST, PARTS, Manifest, table_entry
from portal.upkeep.tables import rows_write, tables

LEVEL = 2
"""Of gzip: half as long as the usual level takes, for a tenth more bytes."""


class BackupRefused(Exception):
    """Why none can be made; one sentence."""


@dataclass(frozen=True, slots=True)
class Made:
    """What was put into a backup."""

    rows: int
    files: dict[str, int]
    size: int


def backup_make(
    *, path: Path, without: Collection[str] = (), now: datetime, said: Callable[[str], None] = lambda _: None
) -> Made:
    """Writes ``path``, which has the name only once it is whole, and notes that it was made. The portal may be in use
    meanwhile: the rows are those of one moment, and files that come later are not asked for by them.

    Raises BackupRefused, OSError.
    """
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        raise BackupRefused("The database is not that of this version of Berth: run `manage.py migrate` first.")
    if fault := data_folder_fault():
        raise BackupRefused(fault)
    parts = [part for part in PARTS if part not in without]
    manifest = Manifest(
        format=FORMAT,
        made_at=now,
        cluster=settings.CLUSTER_NAME,
        database=connection.vendor,
        migrations=sorted(MigrationRecorder(connection).applied_migrations()),
        parts=parts,
    )
    with ArchiveWriter(path) as archive:
        archive.add(MANIFEST, msgspec.json.encode(manifest))
        with one_moment():
            rows = sum(_table_add(archive, model, path.parent, said) for model in tables())
        files = {part: archive.add_folder(part, part_folder(part), wanted=_is_whole) for part in parts}
    size = path.stat().st_size
    backup_note(path=str(path), size=size, made_at=now)
    return Made(rows, files, size)


def part_folder(part: str) -> Path:
    """Where the files of a part lie."""
    folders = {
        "keys": settings.KEYS_DIR,
        "code": settings.CODE_DIR,
        "logs": settings.LOG_DIR,
        "metrics": settings.METRICS_DIR,
    }
    return Path(folders[part])


@contextmanager
def one_moment() -> Iterator[None]:
    """A transaction in which nothing changes that others change, and that holds up nobody: on SQLite a reader's, which
    sees what there is at its first look, in the place of the writer's that others are there."""
    connection.ensure_connection()  # which sets the mode
    wrapper: Any = connection
    usual, wrapper.transaction_mode = getattr(wrapper, "transaction_mode", None), "DEFERRED"
    try:
        with transaction.atomic():
            if connection.vendor == "postgresql":
                with connection.cursor() as cursor:
                    cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield
    finally:
        wrapper.transaction_mode = usual


def _table_add(archive: ArchiveWriter, model: type, folder: Path, said: Callable[[str], None]) -> int:
    label = model._meta.label_lower  # type: ignore[attr-defined]  # a model
    with tempfile.TemporaryFile(dir=folder) as file:
        with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=LEVEL, mtime=0) as packed:
            rows = rows_write(model, packed)  # type: ignore[arg-type]  # written to only
        archive.add_file(table_entry(label), file)
    if rows:
        said(f"{label}: {rows:,} rows")
    return rows


def _is_whole(path: Path) -> bool:
    """Files under their final name: what is being written has another one until it is whole."""
    return not path.name.startswith((".", "writing-")) and path.parent.name != "uploading"
