"""Prepared queries: their SQL is made once, and PostgreSQL plans it once per connection. Django takes longer to
build the SQL of a join or two than PostgreSQL to answer it, and PostgreSQL takes longer to plan eight joins than to
run them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from copy import copy
from datetime import datetime
from types import SimpleNamespace
from typing import Any, Generic, NamedTuple, TypeVar, cast
from uuid import UUID

from django.db import connection
from django.db.models import (
    BigIntegerField,
    BooleanField,
    DateTimeField,
    Expression,
    F,
    Field,
    FloatField,
    Func,
    QuerySet,
    TextField,
    UUIDField,
)
from psycopg import ClientCursor, Cursor
from psycopg.sql import Literal

Row = TypeVar("Row")

LARGEST = 2**63
_FIELDS: dict[type, type[Field[Any, Any]]] = {
    datetime: DateTimeField,
    float: FloatField,
    int: BigIntegerField,
    str: TextField,
    UUID: UUIDField,
}


class Slot(Expression):
    """A placeholder in a ``Prepared`` query: ``filter(user_id=Slot("user", int))``. Never where None may stand."""

    def __init__(self, name: str, kind: type) -> None:
        super().__init__(output_field=_FIELDS[kind]())
        self.name = name

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        return "%s", [self]

    def value(self, values: dict[str, Any]) -> Any:
        """The value as a database parameter."""
        return self.output_field.get_db_prep_value(values[self.name], connection, prepared=False)


class Among(Func):
    """Whether a column's value is in a slot's list: ``filter(Among("id", "ids"))``. The list is one parameter, whatever
    its length."""

    output_field = BooleanField()

    def __init__(self, column: str, name: str) -> None:
        super().__init__(F(column))
        self.name = name

    def as_sql(self, compiler: Any, connection: Any, *_: Any, **__: Any) -> Any:
        column, parameters = compiler.compile(self.get_source_expressions()[0])
        field = self.get_source_expressions()[0].output_field
        kind = (getattr(field, "target_field", None) or field).rel_db_type(connection)
        if connection.vendor == "postgresql":
            return f"{column} = ANY(CAST(%s AS {kind}[]))", [*parameters, self]
        return f"{column} IN (SELECT value FROM json_each(%s))", [*parameters, self]

    def value(self, values: dict[str, Any]) -> Any:
        """The list as a database parameter."""
        found = list(values[self.name])
        if connection.vendor != "postgresql":
            return json.dumps(found, default=_as_sqlite_has_it)
        # As text: psycopg would type a list by its largest number, and so vary the type.
        return found if any(isinstance(one, str) for one in found) else f"{{{','.join(map(str, found))}}}"


def _as_sqlite_has_it(value: UUID) -> str:
    return value.hex


class _Made(NamedTuple):
    """A query's SQL for one database vendor, with Django's compiler for it."""

    rows: QuerySet[Any, Any]
    compiler: Any
    sql: str
    slots: Sequence[Any]


class Prepared(Generic[Row]):
    """A query that is compiled once per database vendor. ``query`` builds it, with a ``Slot`` for each value that
    varies. Rows are whatever it yields: instances, tuples, single values, with what it prefetches."""

    def __init__(self, query: Callable[[], QuerySet[Any, Row]]) -> None:
        self._query = query
        self._made: dict[str, _Made] = {}

    def __call__(self, **values: Any) -> list[Row]:
        """The rows for these values; none if a number exceeds any column's range."""
        if any(isinstance(value, int) and not -LARGEST <= value < LARGEST for value in values.values()):
            return []
        made = self._made.get(connection.vendor) or self._make()
        parameters = tuple(one.value(values) if isinstance(one, Slot | Among) else one for one in made.slots)
        found = _found(made.compiler, made.sql, parameters)
        if not found:
            return []
        compiler, query, rows = copy(made.compiler), copy(made.rows.query), made.rows.all()
        compiler.connection = connection
        compiler.execute_sql = lambda *_, **__: [found]
        query.get_compiler = lambda *_, **__: compiler  # type: ignore[method-assign]
        # Bypasses the setter, which would turn values_list's tuples into dictionaries.
        rows.__dict__["_query"] = query
        return cast(list[Row], list(rows))

    def first(self, **values: Any) -> Row | None:
        """The first row, or None. The query should set its own limit."""
        return next(iter(self(**values)), None)

    def _make(self) -> _Made:
        rows = self._query()
        compiler = rows.query.get_compiler(using=rows.db)
        sql, parameters = compiler.as_sql()
        # The same for every call, and half of what it costs to read the rows of a wide join.
        converters = compiler.get_converters([selected[0] for selected in compiler.select[: compiler.col_count]])
        compiler.get_converters = lambda _: converters
        if connection.vendor == "postgresql":
            sql, parameters = with_literals(sql, parameters)
        made = self._made[connection.vendor] = _Made(rows, compiler, sql, parameters)
        return made


def with_literals(sql: str, parameters: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    """The statement with everything inlined but its slots: a generic plan could not use a partial index on one
    state."""
    parts, slots = re.split(r"(?<!%)%s", sql), []
    told = [parts[0]]
    for one, rest in zip(parameters, parts[1:], strict=True):
        if isinstance(one, Slot | Among):
            slots.append(one)
            told.append("%s")
        else:
            told.append(Literal(one).as_string(connection.connection).replace("%", "%%"))
        told.append(rest)
    return "".join(told), slots


class _Planned(Cursor[Any]):
    """A cursor that makes PostgreSQL keep the statement's plan."""

    def execute(self, query: Any, params: Any = None, **more: Any) -> Any:
        done = super().execute(query, params, prepare=True, **more)
        if connection.queries_logged:  # only the plan's name was sent
            text = ClientCursor(self.connection).mogrify(query, params)
            self._query = cast(Any, SimpleNamespace(query=text.encode()))
        return done


def planned(sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Runs a statement and returns its rows; PostgreSQL keeps the plan."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.cursor = _Planned(connection.connection)
        cursor.execute(sql, parameters)
        return cast(list[tuple[Any, ...]], cursor.fetchall())


def _found(compiler: Any, sql: str, parameters: Sequence[Any]) -> list[Any]:
    rows = planned(sql, parameters)
    return [row[: compiler.col_count] for row in rows] if compiler.has_extra_select else rows
