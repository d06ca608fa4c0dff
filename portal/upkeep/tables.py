"""Rows as lines of JSON, the same for SQLite and PostgreSQL: the columns' names first, then each row's values."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

import msgspec
from django.apps import apps
from django.contrib.sessions.models import Session
from django.db import connection
from django.db.models import BooleanField, CharField, Field, FloatField, IntegerField, JSONField, Model, TextField

from nodes.protocol.decoding import decoded
from nodes.protocol.wording import stored

BATCH = 1000
LEFT_OUT = (Session,)
"""Who is signed in is not kept: after a restore everybody signs in anew."""
AS_THEY_ARE = (BooleanField, CharField, FloatField, IntegerField, TextField)
"""Kinds of columns whose values JSON gives back as they were."""


def tables() -> list[type[Model]]:
    """Every table that is backed up, in an order that is always the same."""
    models = apps.get_models(include_auto_created=True)
    kept = [one for one in models if one._meta.managed and not one._meta.proxy and one not in LEFT_OUT]
    return sorted(kept, key=lambda one: one._meta.label_lower)


def rows_write(model: type[Model], file: IO[bytes]) -> int:
    """All rows of a table, as they are in the transaction that goes on. Returns how many."""
    names = [field.attname for field in model._meta.concrete_fields]
    encoder = msgspec.json.Encoder(enc_hook=stored)  # of a sentence its code and data
    file.write(encoder.encode(names) + b"\n")
    rows = model._base_manager.order_by("pk").values_list(*names).iterator(chunk_size=BATCH)
    count = 0
    for batch in _batches(rows):
        file.write(encoder.encode_lines(batch))
        count += len(batch)
    return count


def rows_load(model: type[Model], lines: Iterable[bytes]) -> int:
    """Puts such rows into the table, which is that of when they were written. Returns how many. Raises DecodeError,
    FieldDoesNotExist, ValidationError and DatabaseError where they are not of that table."""
    several = iter(lines)
    names = decoded(next(several, b"[]"), list[str])
    if not names:
        return 0
    fields: list[Any] = [model._meta.get_field(name) for name in names]
    ready = [_ready(field) for field in fields]
    changed = [(place, make) for place, make in enumerate(ready) if make is not None]
    quoted = connection.ops.quote_name
    columns = ", ".join(quoted(field.column) for field in fields)
    marks = ", ".join(["%s"] * len(fields))
    sql = f"INSERT INTO {quoted(model._meta.db_table)} ({columns}) VALUES ({marks})"  # noqa: S608  # names of ours
    decoder = msgspec.json.Decoder(list[Any])
    count = 0
    with connection.cursor() as cursor:
        for batch in _batches(several):
            rows = [decoder.decode(line) for line in batch]
            for row in rows:
                for place, make in changed:
                    row[place] = make(row[place])
            cursor.executemany(sql, rows)
            count += len(rows)
    return count


def rows_delete(models: Iterable[type[Model]]) -> None:
    """Empties tables, whatever refers to what: references are checked at the end of the transaction."""
    with connection.cursor() as cursor:
        for model in models:
            cursor.execute(f"DELETE FROM {connection.ops.quote_name(model._meta.db_table)}")  # noqa: S608


def _ready(field: Field[Any, Any]) -> Callable[[Any], Any] | None:
    """What makes a column's JSON value one for the database; None where it is one already."""
    target: Any = field
    while target.remote_field is not None:
        target = target.target_field
    if isinstance(target, AS_THEY_ARE):
        return None
    if isinstance(target, JSONField):
        # Where NULL is not allowed, nothing was JSON's own null.
        adapt, null = connection.ops.adapt_json_value, field.null
        return lambda value: None if value is None and null else adapt(target.get_prep_value(value), target.encoder)
    return lambda value: target.get_db_prep_save(target.to_python(value), connection)


def _batches(rows: Iterable[Any]) -> Iterator[list[Any]]:
    several = iter(rows)
    while batch := list(itertools.islice(several, BATCH)):
        yield batch
