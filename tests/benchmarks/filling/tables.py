"""Very many rows into tables: PostgreSQL copies them, and makes indexes and checks references once at the end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import AutoField, JSONField, Max, Model

from nodes.protocol.wording import stored
from portal.jobs.models import Allocation, Job, JobAttempt, JobEvent, Preemption, Task, TaskAttempt, TaskRole
from portal.usage.models import Measured

TABLES: tuple[type[Model], ...] = (
    *(Job, TaskRole, Task, JobAttempt, TaskAttempt, Allocation, Measured, JobEvent, Preemption),
)
"""In the order in which their rows refer to each other."""

Row = tuple[Any, ...]


def json_of(message: str) -> str:
    """A sentence as its column has it."""
    return json.dumps(stored(message))


class Table:
    """New rows of one table: the caller names the columns that it gives, the others have what the model gives them.
    JSON is given as text."""

    def __init__(self, model: type[Model], columns: Sequence[str]) -> None:
        self.model = model
        own = [model._meta.get_field(name) for name in columns]
        others = [
            field for field in model._meta.concrete_fields if field not in own and not isinstance(field, AutoField)
        ]
        self._own, self._others = own, others
        self._names = [connection.ops.quote_name(str(field.column)) for field in (*own, *others)]  # type: ignore[union-attr]  # columns all of them
        self._same = [_default(field) for field in others]
        self.rows: list[Row] = []

    def add(self, *values: Any) -> None:
        """One row, kept until it is written."""
        self.rows.append(values)

    def write(self) -> None:
        """The kept rows go into the database."""
        rows, self.rows = self.rows, []
        if connection.vendor == "postgresql":
            self._copy(rows)
        else:
            self._insert(rows)

    def _copy(self, rows: Sequence[Row]) -> None:
        same = "".join(f"\t{_text(value)}" for value in self._same)
        lines = ["\t".join(map(_text, row)) + same for row in rows]
        with (
            connection.cursor() as cursor,
            cursor.copy(f"COPY {self.model._meta.db_table} ({', '.join(self._names)}) FROM STDIN") as copy,
        ):
            copy.write("\n".join(lines) + "\n")

    def _insert(self, rows: Sequence[Row]) -> None:
        places = ", ".join(["%s"] * len(self._names))
        sql = f"INSERT INTO {self.model._meta.db_table} ({', '.join(self._names)}) VALUES ({places})"  # noqa: S608
        same = [_stored(field, value) for field, value in zip(self._others, self._same, strict=True)]
        with connection.cursor() as cursor:
            ready = [
                [*(_stored(field, value) for field, value in zip(self._own, row, strict=True)), *same] for row in rows
            ]
            cursor.executemany(sql, ready)


def _default(field: Any) -> Any:
    value = field.get_default()
    return json.dumps(value) if isinstance(field, JSONField) else value


def _stored(field: Any, value: Any) -> Any:
    return value if isinstance(field, JSONField) else field.get_db_prep_save(value, connection)


def _text(value: str | int | datetime | UUID | bool | None) -> str:
    """As COPY reads it."""
    if type(value) is str:
        if "\\" in value or "\n" in value or "\t" in value:
            return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
        return value
    return r"\N" if value is None else str(value)


def next_key(model: type[Model]) -> int:
    """The first id that no row has."""
    return int(model._default_manager.aggregate(most=Max("pk"))["most"] or 0) + 1


@contextmanager
def loading() -> Iterator[None]:
    """Inside one transaction: on PostgreSQL the tables have no references and no indexes but their unique ones until
    the end, when they are made again as they were. Nobody else can use the tables meanwhile."""
    if connection.vendor != "postgresql":
        yield
        return
    names = [model._meta.db_table for model in TABLES]
    with connection.cursor() as cursor:
        cursor.execute(_REFERENCES, [names])
        references = cursor.fetchall()
        cursor.execute(_INDEXES, [names])
        indexes = cursor.fetchall()
        for table, name, _ in references:
            cursor.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"')
        for name, _ in indexes:
            cursor.execute(f'DROP INDEX "{name}"')
        yield
        cursor.execute("SET LOCAL maintenance_work_mem = '512MB'")
        for _, definition in indexes:
            cursor.execute(definition)
        for table, name, definition in references:
            cursor.execute(f'ALTER TABLE {table} ADD CONSTRAINT "{name}" {definition}')


_REFERENCES = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE contype = 'f' AND conrelid::regclass::text = ANY(%s) ORDER BY conname
"""
_INDEXES = """
SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index
WHERE NOT indisunique AND indrelid::regclass::text = ANY(%s) ORDER BY 1
"""


def sequences_settle() -> None:
    """The next ids come after those that were given."""
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        for model in TABLES:
            table, key = model._meta.db_table, model._meta.pk
            if isinstance(key, AutoField):
                cursor.execute(
                    f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), COALESCE(MAX(id), 0) + 1, false) FROM {table}"  # noqa: S608,E501
                )


def rows_settle() -> None:
    """Rows that are not there any more removed, and those that all may see marked, as the database does in the
    background soon; not within a transaction."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("VACUUM (ANALYZE)")


def statistics_learn() -> None:
    """What the database's planner goes by, as it would learn in the background soon."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
