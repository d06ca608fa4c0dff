"""Bulk statements: many rows with values of their own, or many keys, in one; many times cheaper than with the ORM.

A column's values travel as one parameter, a JSON list: binding thousands of parameters takes longer than the database
needs for the statement. SQLite cannot zip lists, so it gets one list of rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec
from django.db import connection
from django.db.models import AutoField, CharField, IntegerField, JSONField, Model, TextField
from django.db.models.expressions import RawSQL

Rows = Sequence[Sequence[Any]]


def rows_update(
    model: type[Model],
    columns: Sequence[str],
    rows: Rows,
    *,
    every: Mapping[str, Any] | None = None,
    only: Mapping[str, Any],
) -> None:
    """Updates many rows at once: each of ``rows`` is a key and its values for ``columns``; ``every`` is set on all.
    Rows that do not match ``only`` stay as they are."""
    own = [model._meta.pk, *_fields(model, columns)]
    alike, wanted = _fields(model, every or {}), _fields(model, only)
    table = model._meta.db_table
    key, *values = [f"{field.column} = {_new(field, number)}" for number, field in enumerate(own)]
    setting = ", ".join([*(f"{field.column} = %s" for field in alike), *values])
    where = " AND ".join(f"{table}.{one}" for one in [key, *(f"{field.column} = %s" for field in wanted)])
    listed, texts = _listed(own, rows)
    sql = f"UPDATE {table} SET {setting} FROM {listed} WHERE {where}"  # noqa: S608
    _execute(sql, [*_values(alike, (every or {}).values()), *texts, *_values(wanted, only.values())])


def rows_insert(
    model: type[Model], columns: Sequence[str], rows: Rows, *, returning: Sequence[str] = ()
) -> list[tuple[Any, ...]]:
    """Inserts rows with these values; other columns get the model's defaults. Returns the ``returning`` columns of
    each, in no particular order."""
    own = _fields(model, columns)
    others = [one for one in model._meta.concrete_fields if one not in own and not isinstance(one, AutoField)]
    into = ", ".join(field.column for field in (*own, *others))
    chosen = [_new(field, number) for number, field in enumerate(own)] + [_typed(field, "%s") for field in others]
    listed, texts = _listed(own, rows)
    sql = f"INSERT INTO {model._meta.db_table} ({into}) SELECT {', '.join(chosen)} FROM {listed}"  # noqa: S608
    values = [*_values(others, [field.get_default() for field in others]), *texts]
    if not returning:
        _execute(sql, values)
        return []
    with connection.cursor() as cursor:
        cursor.execute(f"{sql} RETURNING {', '.join(field.column for field in _fields(model, returning))}", values)
        return cast(list[tuple[Any, ...]], cursor.fetchall())


def rows_add(model: type[Model], key: Sequence[str], amounts: Sequence[str], rows: Rows) -> None:
    """Upserts counters: each of ``rows`` is a unique key and amounts to add to those stored under it, if any."""
    own, table = _fields(model, [*key, *amounts]), model._meta.db_table
    chosen = ", ".join(_new(field, number) for number, field in enumerate(own))
    into = [field.column for field in own]
    keys, sums = into[: len(key)], into[len(key) :]
    added = ", ".join(f"{column} = {table}.{column} + excluded.{column}" for column in sums)
    listed, texts = _listed(own, rows)
    # Without WHERE, SQLite would parse ON as part of a join.
    sql = (
        f"INSERT INTO {table} ({', '.join(into)}) SELECT {chosen} FROM {listed} WHERE true "  # noqa: S608
        f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {added}"
    )
    _execute(sql, texts)


def keys_listed(model: type[Model], keys: Iterable[Any]) -> RawSQL:
    """A subquery of these primary keys, for ``pk__in``."""
    key = model._meta.pk
    listed, texts = _listed([key], [(one,) for one in keys])
    return RawSQL(f"SELECT {_new(key, 0)} FROM {listed}", texts)  # noqa: S608, S611


def rows_listed(columns: Mapping[str, Any], rows: Rows) -> tuple[str, list[Any]]:
    """These rows as a SELECT, with its parameters. ``columns``: each column's name, and a field of its type."""
    chosen = ", ".join(f"{_new(field, number)} AS {name}" for number, (name, field) in enumerate(columns.items()))
    listed, texts = _listed([*columns.values()], rows)
    return f"SELECT {chosen} FROM {listed}", texts  # noqa: S608


def _fields(model: type[Model], names: Collection[str]) -> list[Any]:
    return [model._meta.get_field(name) for name in names]


def _execute(sql: str, values: Sequence[Any]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)


def _values(fields: Sequence[Any], values: Iterable[Any]) -> list[Any]:
    return [_value(field, value) for field, value in zip(fields, values, strict=True)]


def _value(field: Any, value: Any) -> Any:
    if isinstance(field, JSONField):
        return _json_of(field.get_prep_value(value))
    return field.get_db_prep_save(value, connection)


def _listed(fields: Sequence[Any], rows: Rows) -> tuple[str, list[str]]:
    """A FROM item named ``new`` with the rows, and its parameters. Texts and numbers are passed as they are; only
    columns of other types are converted."""
    columns = [
        column if _is_plain(field) else _column(field, column)
        for field, column in zip(fields, zip(*rows, strict=True) if rows else [()] * len(fields), strict=True)
    ]
    if connection.vendor != "postgresql":
        return "json_each(%s) AS new", [_json(list(zip(*columns, strict=True)))]
    lists = ", ".join(["json_array_elements_text(CAST(%s AS json))"] * len(fields))
    names = ", ".join(f"c{number}" for number in range(len(fields)))
    return f"ROWS FROM ({lists}) AS new ({names})", [_json(column) for column in columns]


def _json(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=_as_text).decode()


def _as_text(value: Any) -> str:
    # `str()` of a marked text is that text again.
    return str.__str__(value) if isinstance(value, str) else str(value)


def _json_of(value: Any) -> str:
    """A JSON column's value. Raises TypeError for what is not JSON."""
    return msgspec.json.encode(value, enc_hook=_as_base).decode()


def _as_base(value: Any) -> Any:
    """An object of a class derived from a JSON type (a marked text, say) as that type."""
    if isinstance(value, str):
        return _as_text(value)
    for base in (int, float):
        if isinstance(value, base):
            return base(value)
    raise TypeError(f"a JSON column cannot hold {value!r}")


def _is_plain(field: Any) -> bool:
    return isinstance(getattr(field, "target_field", field), CharField | TextField | IntegerField)


def _column(field: Any, column: Sequence[Any]) -> Sequence[Any]:
    """Converts each distinct value once: times are mostly equal, ids are shared."""
    if isinstance(field, JSONField):
        return [_value(field, value) for value in column]
    ready = {value: _value(field, value) for value in {*column}}
    return [ready[value] for value in column]


def _new(field: Any, number: int) -> str:
    """The SQL of a column of ``new``."""
    if connection.vendor == "postgresql":
        return _typed(field, f"new.c{number}")
    return f"json_extract(new.value, '$[{number}]')"


def _typed(field: Any, value: str) -> str:
    """A cast on PostgreSQL only: SQLite needs no types, and would turn a time into a number."""
    return f"CAST({value} AS {field.db_type(connection)})" if connection.vendor == "postgresql" else value
